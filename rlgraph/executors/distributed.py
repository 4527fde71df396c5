"""Values that lie in the object store, as the controller knows them: where, not what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray

from rlgraph import rows as cutting
from rlgraph import wire
from rlgraph.errors import EngineError
from rlgraph.executors.shards import Positions
from rlgraph.executors.transit import Argument, Receipt, Slice, gather
from rlgraph.graph import Node
from rlgraph.node import Split
from rlgraph.rows import Rows
from rlgraph.types import EdgeType


@dataclass(frozen=True)
class Piece:
    """Some rows of a value, lying in the object store."""

    ref: Any
    positions: Positions | None
    """Which rows of the batch they are; None for a value without rows."""
    rows: Positions | None = None
    """Where they lie within what ``ref`` holds; None if they are all of it."""


@dataclass(frozen=True)
class Distributed:
    """A node's result as the controller knows it: where the rows are, not what they hold."""

    kind: EdgeType
    pieces: Sequence[Piece]
    rows: int | None
    lengths: np.ndarray | None = None
    """Real tokens per row, if some record told."""
    groups: np.ndarray | None = None


def argument(
    value: Distributed, field: str | None, kind: EdgeType, wanted: Positions | None
) -> Argument:
    """How to gather the rows at ``wanted``, or all, from the pieces that hold them."""
    if value.rows is None:
        return Argument(kind, field, [Slice(value.pieces[0].ref, None)], None)
    if wanted is None:
        wanted = np.arange(value.rows)
    slices, found = [], []
    for piece in value.pieces:
        assert piece.positions is not None
        mine = np.flatnonzero(np.isin(piece.positions, wanted, assume_unique=True))
        if len(mine) or len(value.pieces) == 1:
            slices.append(Slice(piece.ref, _within(piece, mine)))
            found.append(piece.positions[mine])
    if not slices:
        # No rows wanted: an empty slice still carries type and fields.
        slices, found = [Slice(value.pieces[0].ref, np.arange(0))], [np.arange(0)]
    gathered = np.concatenate(found)
    in_order = bool(np.all(gathered[1:] >= gathered[:-1]))
    return Argument(kind, field, slices, None if in_order else np.argsort(gathered))


def _within(piece: Piece, chosen: Positions) -> Positions | None:
    """Where ``chosen`` of a piece's rows lie in what its reference holds."""
    if piece.rows is not None:
        return piece.rows[chosen]
    return None if piece.positions is not None and len(chosen) == len(piece.positions) else chosen


def select(value: Distributed, wanted: Positions) -> Distributed:
    """The rows at ``wanted``, ascending, as a batch of their own; nothing is moved."""
    pieces: list[Piece] = []
    for piece in value.pieces:
        assert piece.positions is not None
        chosen = np.flatnonzero(np.isin(piece.positions, wanted, assume_unique=True))
        if len(chosen) or not pieces:
            places = np.searchsorted(wanted, piece.positions[chosen])
            rows = chosen if piece.rows is None else piece.rows[chosen]
            pieces.append(Piece(piece.ref, places, rows))
    lengths = None if value.lengths is None else value.lengths[wanted]
    groups = None if value.groups is None else value.groups[wanted]
    return Distributed(value.kind, pieces, len(wanted), lengths, groups)


def concatenate(parts: Sequence[Distributed], kind: EdgeType) -> Distributed:
    """The rows of all parts, one after the other; nothing is moved."""
    pieces: list[Piece] = []
    start = 0
    for part in parts:
        for piece in part.pieces:
            assert piece.positions is not None
            pieces.append(Piece(piece.ref, piece.positions + start, piece.rows))
        start += part.rows or 0
    lengths = [part.lengths for part in parts if part.lengths is not None]
    groups = [part.groups for part in parts if part.groups is not None]
    return Distributed(
        kind,
        pieces,
        start,
        np.concatenate(lengths) if len(lengths) == len(parts) else None,
        np.concatenate(groups) if len(groups) == len(parts) else None,
    )


def put(value: Rows, kind: EdgeType) -> Distributed:
    """A value of this process, moved into the object store."""
    reference = ray.put(wire.pack(value))
    if not cutting.is_batched(kind):
        return Distributed(kind, [Piece(reference, None)], None)
    lengths, groups = cutting.labels(value)
    return Distributed(kind, [Piece(reference, np.arange(len(value)))], len(value), lengths, groups)


def fetch(value: Distributed, wanted: Positions | None, timeout: float) -> Rows:
    """The rows at ``wanted``, or all, in this process."""
    return gather({"value": argument(value, None, value.kind, wanted)}, timeout)["value"]


def count_rows(node: Node, inputs: Mapping[str, Distributed]) -> int | None:
    """How many rows go into a node; None if no input has any.

    Raises:
        EngineError: the inputs disagree.
    """
    counts = {port: value.rows for port, value in inputs.items() if value.rows is not None}
    if len(set(counts.values())) > 1 and node.function.split is not Split.NEVER:
        listing = ", ".join(f"{port} has {count}" for port, count in counts.items())
        raise EngineError(f"{node.where}: {node.name}: its inputs differ in rows: {listing}")
    return next(iter(counts.values()), None)


def combine(
    kind: EdgeType,
    references: Sequence[Any],
    receipts: Sequence[Receipt],
    shards: Sequence[Positions],
    inputs: Sequence[Distributed],
) -> Distributed:
    """One value from what the workers gave for their shards.

    If each gave as many rows as it got, they go back to where they came from,
    and what is known of the input rows stays true. Otherwise they follow each
    other in the order of the shards.
    """
    if receipts[0].rows is None:
        return Distributed(kind, [Piece(references[0], None)], None)
    counts = [receipt.rows or 0 for receipt in receipts]
    total = sum(counts)
    kept = any(value.rows for value in inputs) and [len(shard) for shard in shards] == counts
    runs = np.split(np.arange(total), np.cumsum(counts)[:-1])
    positions = list(shards) if kept else runs
    known = [value for value in inputs if kept and value.rows == total]
    lengths = _scatter([r.lengths for r in receipts], positions, total)
    groups = _scatter([r.groups for r in receipts], positions, total)
    if lengths is None:
        lengths = next((value.lengths for value in known if value.lengths is not None), None)
    if groups is None:
        groups = next((value.groups for value in known if value.groups is not None), None)
    pieces = [Piece(ref, where) for ref, where in zip(references, positions, strict=True)]
    return Distributed(kind, pieces, total, lengths, groups)


def _scatter(
    parts: Sequence[np.ndarray | None], positions: Sequence[Positions], total: int
) -> np.ndarray | None:
    """Per-shard arrays in batch order; None if some shard had none to tell."""
    present = [part for part in parts if part is not None]
    if len(present) < len(parts):
        return None
    whole = np.empty(total, dtype=present[0].dtype)
    for part, where in zip(present, positions, strict=True):
        whole[where] = part
    return whole
