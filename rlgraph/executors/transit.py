"""What travels between controller and workers: pointers to rows one way, receipts the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch

from rlgraph import rows as cutting
from rlgraph import wire
from rlgraph.metrics import Metrics
from rlgraph.types import EdgeType


@dataclass(frozen=True)
class Slice:
    """Rows of one piece, by their number within it; None for all."""

    ref: Any
    rows: np.ndarray | None


@dataclass(frozen=True)
class Argument:
    """What a worker must gather for one port."""

    kind: EdgeType
    field: str | None
    slices: Sequence[Slice]
    order: np.ndarray | None
    """Brings the gathered rows into batch order; None if they are."""


@dataclass(frozen=True)
class Receipt:
    """What the controller learns of a result, which itself stays in the object store."""

    rows: int | None
    lengths: np.ndarray | None
    groups: np.ndarray | None
    metrics: Metrics
    seconds: float
    another_round: bool = False
    """Did the node ask for one?"""


def gather(arguments: Mapping[str, Argument], timeout: float) -> dict[str, Any]:
    """Fetch, cut and join the rows of every argument, at one common width.

    Raises:
        ray.exceptions.GetTimeoutError: some rows did not arrive in ``timeout`` seconds.
    """
    refs = [piece.ref for argument in arguments.values() for piece in argument.slices]
    fetched = iter(ray.get(refs, timeout=timeout))
    values, kinds = {}, {}
    for port, argument in arguments.items():
        packed = [wire.field_of(next(fetched), argument.field) for _ in argument.slices]
        parts = [
            piece.unpack(slice_.rows) for piece, slice_ in zip(packed, argument.slices, strict=True)
        ]
        value = cutting.join(parts, argument.kind)
        values[port] = value if argument.order is None else value[torch.from_numpy(argument.order)]
        kinds[port] = argument.kind
    return cutting.align(values, kinds)
