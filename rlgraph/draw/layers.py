"""Which layer each node is in, and in which order a layer's cells stand.

The layered method of Sugiyama, Tagawa and Toda (1981). Layers alternate: nodes
in the even ones, edge labels in the odd ones. An edge becomes a chain of cells,
one in every layer that it passes, so that it gets room of its own everywhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import networkx as nx

_SWEEPS = 12

Size = tuple[float, float]
"""Width and height, in points."""


@dataclass(eq=False)
class Cell:
    """A rectangle in a layer: a node, an edge's label, or a point that an edge passes."""

    kind: Literal["node", "label", "bend"]
    layer: int
    width: float
    height: float
    x: float = 0.0
    """Of the centre."""
    y: float = 0.0
    above: "list[Link]" = field(default_factory=list, repr=False)
    below: "list[Link]" = field(default_factory=list, repr=False)

    @property
    def left(self) -> float:
        """Its left side, as x."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """Its right side, as x."""
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        """Its upper side, as y; y grows downwards."""
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        """Its lower side, as y."""
        return self.y + self.height / 2


@dataclass(eq=False)
class Link:
    """A piece of an edge between neighbouring layers, and where on its ends it docks."""

    upper: Cell
    lower: Cell
    dock_upper: float = 0.0
    """To the right of the upper cell's centre."""
    dock_lower: float = 0.0

    @property
    def weight(self) -> float:
        """How much the piece wants to be vertical: long edges more than short ones."""
        bends = (self.upper.kind != "node") + (self.lower.kind != "node")
        return (1.0, 2.0, 8.0)[bends]


@dataclass
class Layers:
    """The cells of all layers in order, each node's cell, and each edge's chain of cells."""

    rows: list[list[Cell]]
    nodes: dict[str, Cell]
    chains: dict[tuple[str, str], list[Cell]]


def layers_of(nodes: Mapping[str, Size], edges: Mapping[tuple[str, str], Size]) -> Layers:
    """Put nodes, and the labels of edges, into ordered layers.

    Args:
        nodes: their sizes, by name, in the order in which ties are settled.
        edges: the sizes of their labels, by source and target; no cycles.
    """
    level = _levels(nodes, edges)
    depth = max(level.values(), default=0)
    rows: list[list[Cell]] = [[] for _ in range(2 * depth + 1)]
    cells = {name: Cell("node", 2 * level[name], *size) for name, size in nodes.items()}
    for cell in cells.values():
        rows[cell.layer].append(cell)
    chains: dict[tuple[str, str], list[Cell]] = {}
    # Short edges first: they have no choice where their label goes.
    for source, target in sorted(edges, key=lambda edge: level[edge[1]] - level[edge[0]]):
        size = edges[source, target]
        first, last = cells[source], cells[target]
        passed = range(first.layer + 1, last.layer)
        chosen = _roomiest(rows, passed)
        chain = [first]
        for layer in passed:
            labelled = layer == chosen
            cell = Cell("label", layer, *size) if labelled else Cell("bend", layer, 8.0, 0.0)
            rows[layer].append(cell)
            chain.append(cell)
        chain.append(last)
        for upper, lower in pairwise(chain):
            link = Link(upper, lower)
            upper.below.append(link)
            lower.above.append(link)
        chains[source, target] = chain
    return Layers(_ordered(rows), cells, chains)


def _levels(names: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """As far up as the inputs allow, but sources stand right above what they feed."""
    dag = nx.DiGraph()
    dag.add_nodes_from(names)
    dag.add_edges_from(edges)
    generations = enumerate(nx.topological_generations(dag))
    level = {name: index for index, generation in generations for name in generation}
    for name in dag:
        if dag.in_degree(name) == 0 and dag.out_degree(name) > 0:
            level[name] = min(level[after] for after in dag.successors(name)) - 1
    return level


def _roomiest(rows: Sequence[Sequence[Cell]], passed: range) -> int:
    """The odd layer with the least in it so far; of equals, the nearest to the target."""
    odd = [layer for layer in passed if layer % 2]
    return min(odd, key=lambda layer: (sum(cell.width for cell in rows[layer]), -layer))


def _ordered(rows: list[list[Cell]]) -> list[list[Cell]]:
    """Sweep down and up by barycentre, swap neighbours; the fewest crossings win."""
    best, fewest = rows, _crossings(rows)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        rows = [list(row) for row in rows]
        for index in range(len(rows)) if down else reversed(range(len(rows))):
            other = index - 1 if down else index + 1
            if 0 <= other < len(rows):
                rows[index] = _by_barycentre(rows[index], rows[other], down)
        swapped = [list(row) for row in rows]
        _swap(swapped)
        if (count := _crossings(swapped)) < fewest:
            best, fewest = swapped, count
    return best


def _by_barycentre(row: list[Cell], fixed: list[Cell], down: bool) -> list[Cell]:
    place = {cell: index for index, cell in enumerate(fixed)}
    own = {cell: index * len(fixed) / max(len(row), 1) for index, cell in enumerate(row)}

    def centre(cell: Cell) -> float:
        ends = _above(cell, place) if down else _below(cell, place)
        return sum(ends) / len(ends) if ends else own[cell]

    return sorted(row, key=centre)


def _swap(rows: list[list[Cell]]) -> None:
    """Exchange neighbours in a row for as long as that undoes crossings."""
    place = {cell: index for row in rows for index, cell in enumerate(row)}
    better = True
    while better:
        better = False
        for row in rows:
            for index in range(len(row) - 1):
                left, right = row[index : index + 2]
                if _between(left, right, place) > _between(right, left, place):
                    row[index : index + 2] = right, left
                    place[left], place[right] = place[right], place[left]
                    better = True


def _between(left: Cell, right: Cell, place: Mapping[Cell, int]) -> int:
    """Crossings of one cell's links with those of a cell to its right."""
    above = ((a, b) for a in _above(left, place) for b in _above(right, place))
    below = ((a, b) for a in _below(left, place) for b in _below(right, place))
    return sum(a > b for a, b in above) + sum(a > b for a, b in below)


def _crossings(rows: Sequence[Sequence[Cell]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {cell: index for index, cell in enumerate(lower)}
        ends = [end for cell in upper for end in sorted(_below(cell, place))]
        count += sum(a > b for index, b in enumerate(ends) for a in ends[:index])
    return count


def _above(cell: Cell, place: Mapping[Cell, int]) -> list[int]:
    return [place[link.upper] for link in cell.above]


def _below(cell: Cell, place: Mapping[Cell, int]) -> list[int]:
    return [place[link.lower] for link in cell.below]
