"""Cutting and joining what travels along edges, row by row.

The names of a type's dimensions say all that is needed: ``batch`` counts rows,
``seq`` is padded with zeros on the right, so pieces of different width join.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad

from rlgraph.types import Array, EdgeType, Record

Rows = Any
"""A tensor or a record. Checkers cannot tell which from the type that stands beside it."""


def is_batched(kind: EdgeType) -> bool:
    """Has a value of this type rows?"""
    return isinstance(kind, Record) or "batch" in kind.dims


def labels(value: Rows) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Real tokens per row, and each row's group, where a record tells."""
    mask, group = getattr(value, "attention_mask", None), getattr(value, "group", None)
    lengths = None if mask is None else mask.sum(-1).numpy()
    return lengths, None if group is None else group.numpy()


def width(value: Rows, kind: EdgeType) -> int | None:
    """The size of ``seq``; None for a type without it."""
    if isinstance(kind, Array):
        return value.shape[kind.dims.index("seq")] if "seq" in kind.dims else None
    widths = (width(getattr(value, name), array) for name, array in kind.fields().items())
    return next((size for size in widths if size is not None), None)


def needed_width(value: Rows, kind: EdgeType) -> int | None:
    """The smallest ``seq`` that loses nothing: a record knows its longest row."""
    mask = getattr(value, "attention_mask", None) if isinstance(kind, Record) else None
    if mask is None:
        return width(value, kind)
    return int(mask.sum(-1).max()) if mask.numel() else 0


def resize(value: Rows, kind: EdgeType, size: int) -> Rows:
    """``value`` with ``seq`` cut or zero-padded to ``size``."""
    if isinstance(kind, Array):
        if "seq" not in kind.dims:
            return value
        axis = kind.dims.index("seq")
        missing = size - value.shape[axis]
        if missing <= 0:
            return value.narrow(axis, 0, size)
        after = len(kind.dims) - 1 - axis
        return pad(value, [0, 0] * after + [0, missing])
    changed = {
        name: resize(getattr(value, name), array, size)
        for name, array in kind.fields().items()
        if "seq" in array.dims
    }
    return value.replace(**changed) if changed else value


def join(pieces: Sequence[Rows], kind: EdgeType) -> Rows:
    """The rows of all pieces, in order, padded to the widest.

    Raises:
        ValueError: there is no piece; even no rows have a type and a width.
    """
    if not pieces:
        raise ValueError(f"no piece to join into a {kind}")
    if len(pieces) == 1:
        return pieces[0]
    size = max(width(piece, kind) or 0 for piece in pieces)
    wide = [resize(piece, kind, size) for piece in pieces]
    if isinstance(kind, Array):
        return torch.cat(wide)
    # Field by field, since torch.cat of records trips over empty lists.
    arrays, fields = kind.fields(), dict[str, Any]()
    for name in type(wide[0]).__dataclass_fields__:
        parts = [getattr(piece, name) for piece in wide]
        fields[name] = torch.cat(parts) if name in arrays else list(chain(*parts))
    return type(wide[0])(**fields, batch_size=[sum(map(len, wide))])


def align(values: Mapping[str, Rows], kinds: Mapping[str, EdgeType]) -> dict[str, Rows]:
    """All values at one ``seq``: the longest row of the records among them.

    Without a record the widest array decides.
    """
    records = [name for name in values if isinstance(kinds[name], Record)]
    sizes = [needed_width(values[name], kinds[name]) for name in records or values]
    known = [size for size in sizes if size is not None]
    if not known:
        return dict(values)
    return {name: resize(value, kinds[name], max(known)) for name, value in values.items()}
