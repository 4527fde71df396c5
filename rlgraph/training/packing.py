"""Which rows go through the model together."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

# A micro-batch is closed early when the next row would be padded by more than this
# share of the width, but only once it is large enough to keep a device busy.
WASTE = 0.25
BUSY = 4096

# Larger micro-batches are slower on a CPU: their activations do not fit its caches.
CPU_TOKENS = 2048


@dataclass(frozen=True)
class MicroBatch:
    """Rows of one forward pass, and the longest of them."""

    rows: tuple[int, ...]
    width: int

    @property
    def padded_tokens(self) -> int:
        """What the pass costs."""
        return len(self.rows) * self.width


EMPTY = MicroBatch((), 0)
"""A pass without rows, for ranks that must keep in step with busier ones."""


def pack(rows: Sequence[int], lengths: Sequence[int], budget: int) -> list[MicroBatch]:
    """Cut rows into micro-batches of at most ``budget`` padded tokens.

    Neighbours have similar lengths, each row comes exactly once, and a row that
    is longer than the budget goes alone. ``lengths`` are indexed by row.
    """
    batches: list[MicroBatch] = []
    open_rows: list[int] = []
    width = 0
    for row in sorted(rows, key=lambda row: (-lengths[row], row)):
        full = (len(open_rows) + 1) * width > budget
        wasteful = lengths[row] < (1 - WASTE) * width and len(open_rows) * width >= BUSY
        if open_rows and (full or wasteful):
            batches.append(MicroBatch(tuple(open_rows), width))
            open_rows = []
        if not open_rows:
            width = lengths[row]
        open_rows.append(row)
    if open_rows:
        batches.append(MicroBatch(tuple(open_rows), width))
    return batches


def share(rows: Sequence[int], lengths: Sequence[int], ranks: int) -> list[list[int]]:
    """Spread rows over ranks so that each gets about as many tokens.

    The longest row goes first, always to the rank with the fewest tokens so far.
    Ranks beyond the number of rows get none.
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for row in sorted(rows, key=lambda row: (-lengths[row], row)):
        rank = loads.index(min(loads))
        shares[rank].append(row)
        loads[rank] += lengths[row]
    return shares


def plan(
    rows: Sequence[int], lengths: Sequence[int], budget: int, ranks: int
) -> list[list[MicroBatch]]:
    """Micro-batches of every rank, equally many: the idle ranks get empty ones."""
    packed = [pack(part, lengths, budget) for part in share(rows, lengths, ranks)]
    passes = max(len(batches) for batches in packed)
    return [batches + [EMPTY] * (passes - len(batches)) for batches in packed]


def row_lengths(attention_mask: Tensor) -> list[int]:
    """True length of each row of a right-padded ``[batch seq]`` mask."""
    return [int(length) for length in attention_mask.sum(-1).tolist()]
