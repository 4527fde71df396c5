"""Which rows go to which worker, and how they find back into order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlgraph.node import Split
from rlgraph.types import EdgeType

Positions = np.ndarray
"""Row numbers within the whole batch, ``int64``."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a value, lying in the object store."""

    ref: Any
    positions: Positions | None
    """None for a value without rows."""


@dataclass(frozen=True)
class Distributed:
    """A node's result as the controller knows it: where the rows are, not what they hold."""

    kind: EdgeType
    pieces: Sequence[Piece]
    rows: int | None
    lengths: np.ndarray | None = None
    """Real tokens per row, if some record told."""
    groups: np.ndarray | None = None


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


def shares(
    split: Split,
    workers: int,
    rows: int,
    *,
    lengths: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    keeps_rows: bool = True,
) -> list[Positions]:
    """Row positions for each worker, ascending; some may be empty.

    Rows that stand for themselves are dealt out by length, so that every worker
    gets about the same number of tokens. A node that may give other rows than it
    got (``keeps_rows=False``) gets runs of neighbours, since its results can
    only be put one behind the other.
    """
    everything = np.arange(rows)
    if split is Split.NEVER or workers == 1:
        return [everything]
    if split is Split.GROUPS:
        if groups is None:
            return [everything]
        _, first, which = np.unique(groups, return_index=True, return_inverse=True)
        # Groups by first appearance, so that neighbours stay neighbours.
        rank = np.empty_like(first)
        rank[np.argsort(first)] = np.arange(len(first))
        blocks = np.array_split(np.arange(len(first)), workers)
        return [np.flatnonzero(np.isin(rank[which], block)) for block in blocks]
    if lengths is None or not keeps_rows:
        return np.array_split(everything, workers)
    # Longest first, there and back again: 0 1 2 2 1 0 0 1 2 ...
    dealt = np.argsort(-lengths, kind="stable")
    turn = np.arange(rows) % (2 * workers)
    worker = np.where(turn < workers, turn, 2 * workers - 1 - turn)
    return [np.sort(dealt[worker == number]) for number in range(workers)]


def argument(value: Distributed, field: str | None, kind: EdgeType, wanted: Positions) -> Argument:
    """How to gather the rows at ``wanted`` from the pieces that hold them."""
    if value.rows is None:
        return Argument(kind, field, [Slice(value.pieces[0].ref, None)], None)
    slices, found = [], []
    for piece in value.pieces:
        assert piece.positions is not None
        mine = np.flatnonzero(np.isin(piece.positions, wanted, assume_unique=True))
        if len(mine) or len(value.pieces) == 1:
            slices.append(Slice(piece.ref, None if len(mine) == len(piece.positions) else mine))
            found.append(piece.positions[mine])
    if not slices:
        # No rows wanted: an empty slice still carries type and fields.
        slices, found = [Slice(value.pieces[0].ref, np.arange(0))], [np.arange(0)]
    gathered = np.concatenate(found)
    in_order = bool(np.all(gathered[1:] >= gathered[:-1]))
    return Argument(kind, field, slices, None if in_order else np.argsort(gathered))
