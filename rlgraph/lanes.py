"""Lanes of a chart: what is in them, and where nothing is."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rlgraph.scheduling.progress import Span


def device_lanes(name: str, devices: int) -> list[str]:
    """``NAME``, or ``NAME/0`` and so on if a set has several devices."""
    return [name] if devices == 1 else [f"{name}/{index}" for index in range(devices)]


def stacked(spans: Sequence[Span]) -> list[int]:
    """A row for each span, so that none overlap in a row and there are as few as can be."""
    rows = [0] * len(spans)
    ends: list[float] = []
    for index in sorted(range(len(spans)), key=lambda i: (spans[i].begin, spans[i].end)):
        span = spans[index]
        row = next((row for row, end in enumerate(ends) if end <= span.begin), len(ends))
        ends[row : row + 1] = [span.end]
        rows[index] = row
    return rows


def gaps(intervals: Sequence[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Where nothing is, from ``begin`` to ``end``."""
    for (_, one), (other, _) in pairwise([(begin, begin), *sorted(intervals), (end, end)]):
        if one < other:
            yield one, other
