"""The lines of edges, as cubic curves that touch no box but their own."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rlgraph.draw.layers import Cell, Layers
from rlgraph.draw.layout import bands

_LANE = 44.0
"""Points between the boxes and the first back edge beside them, and between back edges."""
_ROUND = 12.0
"""Radius of a back edge's corners."""
_ARRIVE = 7.0
"""Points that a line runs straight into a node: as long as an arrow's head."""


class Point(NamedTuple):
    """In points; y down."""

    x: float
    y: float


class Curve(NamedTuple):
    """A cubic Bézier curve."""

    start: Point
    control: Point
    control_end: Point
    end: Point


class Loop(NamedTuple):
    """A back edge: its line, and where its label stands."""

    curves: list[Curve]
    label: Point


def route(chain: Sequence[Cell], layers: Layers) -> list[Curve]:
    """From the bottom of the first cell to the top of the last.

    Inside a layer the line is vertical, at a cell of its own; between layers
    there is nothing that it could hit.
    """
    edges = bands(layers.rows)
    curves: list[Curve] = []
    for upper, lower in pairwise(chain):
        link = next(link for link in upper.below if link.lower is lower)
        out, into = upper.x + link.dock_upper, lower.x + link.dock_lower
        floor, ceiling = edges[upper.layer][1], edges[lower.layer][0]
        if lower.kind == "node":
            ceiling -= _ARRIVE
        if upper.kind != "node":
            curves.append(_line(Point(out, edges[upper.layer][0]), Point(out, floor)))
        elif upper.bottom < floor:
            curves.append(_line(Point(out, upper.bottom), Point(out, floor)))
        middle = (floor + ceiling) / 2
        curves.append(
            Curve(Point(out, floor), Point(out, middle), Point(into, middle), Point(into, ceiling))
        )
        if lower.kind == "node":
            curves.append(_line(Point(into, ceiling), Point(into, lower.top)))
    return curves


def loop(source: Cell, target: Cell, layers: Layers, index: int) -> Loop:
    """From ``source`` round the outside and up to ``target``, in the back edge's own lane.

    It leaves and enters at the side if nothing stands there; else it goes below
    the source and above the target.
    """
    cells = [cell for row in layers.rows for cell in row]
    lane = max(cell.right for cell in cells) + _LANE * (1 + 1.5 * index)
    leaves = _leave(source, layers, lane)
    enters = _enter(target, layers, lane)
    corners = [*leaves, *enters]
    return Loop(_rounded(corners), Point(lane, (leaves[-1].y + enters[0].y) / 2))


def _leave(cell: Cell, layers: Layers, lane: float) -> list[Point]:
    if _free(cell, layers):
        return [Point(cell.right, cell.y), Point(lane, cell.y)]
    x, y = cell.right - 14, bands(layers.rows)[cell.layer][1] + 9
    return [Point(x, cell.bottom), Point(x, y), Point(lane, y)]


def _enter(cell: Cell, layers: Layers, lane: float) -> list[Point]:
    if _free(cell, layers):
        return [Point(lane, cell.y), Point(cell.right, cell.y)]
    x, y = cell.right - 14, bands(layers.rows)[cell.layer][0] - 11
    return [Point(lane, y), Point(x, y), Point(x, cell.top)]


def _free(cell: Cell, layers: Layers) -> bool:
    """Is nothing to the right of the cell?"""
    return all(other.x <= cell.x for other in layers.rows[cell.layer])


def _rounded(corners: Sequence[Point]) -> list[Curve]:
    """Straight lines through the corners, each corner rounded off."""
    curves: list[Curve] = []
    at = corners[0]
    for corner, after in pairwise(corners[1:]):
        radius = min(_ROUND, _distance(at, corner) / 2, _distance(corner, after) / 2)
        before, behind = _towards(corner, at, radius), _towards(corner, after, radius)
        curves += [_line(at, before), Curve(before, corner, corner, behind)]
        at = behind
    return [*curves, _line(at, corners[-1])]


def _line(start: Point, end: Point) -> Curve:
    return Curve(start, start, end, end)


def _distance(a: Point, b: Point) -> float:
    return abs(a.x - b.x) + abs(a.y - b.y)


def _towards(start: Point, end: Point, distance: float) -> Point:
    share = distance / (_distance(start, end) or 1.0)
    return Point(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share)
