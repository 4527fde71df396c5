"""Which rows go to which worker."""

import numpy as np

from rlgraph.node import Split
from rlgraph.scheduling.plan import Part

Positions = np.ndarray
"""Row numbers within the whole batch, ``int64``."""


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


def share(rows: int, part: Part) -> Positions:
    """The row numbers that belong to a part: a run of neighbours."""
    return np.array_split(np.arange(rows), part.of)[part.number]


def spread(rows: int, wanted: int) -> Positions:
    """``wanted`` of ``rows`` row numbers, the first and the last among them."""
    return np.unique(np.linspace(0, rows - 1, min(rows, wanted)).astype(np.int64))
