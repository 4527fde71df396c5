"""Coordinates for layered cells: no two overlap, and edges are as straight as that allows.

The x-coordinates are those of Gansner, Koutsofios, North and Vo, "A Technique for
Drawing Directed Graphs" (1993): least weighted sideways length, as a linear program.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from rlgraph.draw.layers import Cell, Layers, Link, Size, layers_of

_SWEEPS = 20
_GAP = 22.0
"""Points between neighbours in a layer."""
_DOCK = 26.0
"""Points between edges that dock at the same side of a node, if there is room."""
_LEAST, _MOST = 26.0, 46.0
"""Points between layers: more where edges have far to go sideways."""


def layout(nodes: Mapping[str, Size], edges: Mapping[tuple[str, str], Size]) -> Layers:
    """Layers with coordinates, in points; x to the right, y down, all of it positive.

    Args:
        nodes: their sizes, by name.
        edges: the sizes of their labels, by source and target; no cycles.
    """
    layers = layers_of(nodes, edges)
    places = {cell: index for row in layers.rows for index, cell in enumerate(row)}
    for cell in layers.nodes.values():
        _dock(cell, places)
    _straighten(layers.rows)
    _centre(layers)
    shift = min((cell.left for row in layers.rows for cell in row), default=0.0)
    for row in layers.rows:
        for cell in row:
            cell.x -= shift
    _stack(layers.rows)
    return layers


def _dock(cell: Cell, places: Mapping[Cell, int]) -> None:
    """Spread a node's edges over its upper and lower side, in the order they leave in."""
    above = sorted(cell.above, key=lambda link: places[link.upper])
    below = sorted(cell.below, key=lambda link: places[link.lower])
    for links in (above, below):
        step = min(_DOCK, (cell.width - 36) / max(len(links) - 1, 1))
        for index, link in enumerate(links):
            offset = (index - (len(links) - 1) / 2) * step
            if links is above:
                link.dock_lower = offset
            else:
                link.dock_upper = offset


def _straighten(rows: Sequence[Sequence[Cell]]) -> None:
    """Least weighted sideways length of all links, with order and gaps kept."""
    cells = [cell for row in rows for cell in row]
    links = [link for cell in cells for link in cell.below]
    column = {cell: index for index, cell in enumerate(cells)}
    entries: list[tuple[int, int, float]] = []
    limits: list[float] = []
    for row in rows:
        for left, right in pairwise(row):
            entries += [(len(limits), column[left], 1.0), (len(limits), column[right], -1.0)]
            limits.append(-_apart(left, right))
    for index, link in enumerate(links):
        docks = link.dock_lower - link.dock_upper
        for sign in (1.0, -1.0):
            entries += [
                (len(limits), column[link.upper], sign),
                (len(limits), column[link.lower], -sign),
                (len(limits), len(cells) + index, -1.0),
            ]
            limits.append(sign * docks)
    cost = np.array([0.0] * len(cells) + [link.weight for link in links])
    if not limits:
        return
    at_row, at_column, factor = zip(*entries, strict=True)
    matrix = coo_array((factor, (at_row, at_column)), shape=(len(limits), len(cost)))
    solved = linprog(cost, A_ub=matrix.tocsr(), b_ub=limits, method="highs")
    if solved.x is None:
        raise RuntimeError(f"no layout found: {solved.message}")
    for cell, x in zip(cells, solved.x, strict=False):
        cell.x = float(x)


def _centre(layers: Layers) -> None:
    """Of all equally straight places, take the middle ones.

    Cells that came to stand on one straight line move as one, to the median of
    their other links, as far as their neighbours let them.
    """
    cells = [cell for row in layers.rows for cell in row]
    near = {cell: pair for row in layers.rows for cell, pair in _neighbours(row)}
    for _ in range(_SWEEPS):
        for block in _blocks(cells):
            within = set(block)
            pulls = [
                (_other(link, cell).x + _dock_shift(link, cell) - cell.x, link.weight)
                for cell in block
                for link in (*cell.above, *cell.below)
                if _other(link, cell) not in within
            ]
            if not pulls:
                continue
            move = _median(pulls)
            lows = [b.x + _apart(b, c) - c.x for c in block if (b := near[c][0]) is not None]
            highs = [a.x - _apart(c, a) - c.x for c in block if (a := near[c][1]) is not None]
            move = min(max(move, max(lows, default=-inf)), min(highs, default=inf))
            for cell in block:
                cell.x += move


def _median(pulls: Sequence[tuple[float, float]]) -> float:
    """The weighted median of (place, weight); the middle if a whole interval is."""
    ordered = sorted(pulls)
    half = sum(weight for _, weight in ordered) / 2
    passed = 0.0
    for index, (place, weight) in enumerate(ordered):
        passed += weight
        if passed == half:
            return (place + ordered[index + 1][0]) / 2
        if passed > half:
            return place
    raise ValueError("the median of nothing")


def _blocks(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells joined by straight pieces of long edges; a node is alone."""
    found: list[list[Cell]] = []
    for cell in cells:
        straight = [
            link.upper
            for link in cell.above
            if "node" not in (cell.kind, link.upper.kind) and _sideways(link) < 0.5
        ]
        if straight:
            next(block for block in found if straight[0] in block).append(cell)
        else:
            found.append([cell])
    return found


def _neighbours(row: Sequence[Cell]) -> list[tuple[Cell, tuple[Cell | None, Cell | None]]]:
    padded = [None, *row, None]
    return [(cell, (padded[i], padded[i + 2])) for i, cell in enumerate(row)]


def _other(link: Link, cell: Cell) -> Cell:
    return link.lower if link.upper is cell else link.upper


def _dock_shift(link: Link, cell: Cell) -> float:
    """How far right of the other cell this one stands if the link is vertical."""
    shift = link.dock_lower - link.dock_upper
    return shift if link.upper is cell else -shift


def _apart(left: Cell, right: Cell) -> float:
    """Between the centres of neighbours, at least."""
    return (left.width + right.width) / 2 + _GAP


def _stack(rows: Sequence[Sequence[Cell]]) -> None:
    """Give the layers their heights; each cell stands in the middle of its layer."""
    heights = [max((cell.height for cell in row), default=0.0) for row in rows]
    y = 0.0
    for index, (row, height) in enumerate(zip(rows, heights, strict=True)):
        for cell in row:
            cell.y = y + height / 2
        links = [link for cell in row for link in cell.below]
        far = max((_sideways(link) for link in links), default=0.0)
        y += height + (min(max(_LEAST, far / 5), _MOST) if index + 1 < len(rows) else 0.0)


def _sideways(link: Link) -> float:
    return abs(link.upper.x + link.dock_upper - link.lower.x - link.dock_lower)


def bands(rows: Sequence[Sequence[Cell]]) -> list[tuple[float, float]]:
    """Top and bottom of each layer."""
    found: list[tuple[float, float]] = []
    for row in rows:
        found.append((min(cell.top for cell in row), max(cell.bottom for cell in row)))
    assert all(a[1] <= b[0] for a, b in pairwise(found)), "layers overlap"
    return found
