from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("scipy")

from rlgraph.draw.layers import Cell, layers_of
from rlgraph.draw.layout import layout
from rlgraph.draw.routes import Curve, Point, loop, route

sizes = st.tuples(st.floats(40, 200), st.floats(20, 60))


@st.composite
def dags(draw):
    names = [f"n{index}" for index in range(draw(st.integers(1, 9)))]
    pairs = list(combinations(names, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=16)) if pairs else []
    nodes = {name: draw(sizes) for name in names}
    return nodes, {pair: draw(sizes) for pair in chosen}


def overlap(one: Cell, other: Cell) -> bool:
    apart = 1e-6
    return (
        one.left < other.right - apart
        and other.left < one.right - apart
        and one.top < other.bottom - apart
        and other.top < one.bottom - apart
    )


def points(curves: list[Curve]) -> list[Point]:
    found = []
    for a, b, c, d in curves:
        for t in (index / 12 for index in range(13)):
            u = 1 - t
            at = [
                u**3 * p + 3 * u * u * t * q + 3 * u * t * t * r + t**3 * s
                for p, q, r, s in zip(a, b, c, d, strict=True)
            ]
            found.append(Point(*at))
    return found


def hits(curves: list[Curve], cell: Cell) -> bool:
    return any(
        cell.left + 0.5 < x < cell.right - 0.5 and cell.top + 0.5 < y < cell.bottom - 0.5
        for x, y in points(curves)
    )


@given(dags())
@settings(max_examples=60, deadline=None)
def test_no_two_boxes_or_labels_overlap(dag):
    layers = layout(*dag)
    boxes = [cell for row in layers.rows for cell in row if cell.kind != "bend"]
    assert len(boxes) == len(dag[0]) + len(dag[1])
    assert all(cell.left >= -1e-6 and cell.top >= -1e-6 for cell in boxes)
    assert not any(overlap(one, other) for one, other in combinations(boxes, 2))


@given(dags())
@settings(max_examples=60, deadline=None)
def test_an_edge_goes_down_from_its_source_to_its_target_and_hits_no_other_box(dag):
    layers = layout(*dag)
    for (source, target), chain in layers.chains.items():
        curves = route(chain, layers)
        start, end = curves[0].start, curves[-1].end
        assert start.y == pytest.approx(layers.nodes[source].bottom)
        assert end.y == pytest.approx(layers.nodes[target].top)
        assert layers.nodes[source].left < start.x < layers.nodes[source].right
        assert layers.nodes[target].left < end.x < layers.nodes[target].right
        ys = [point.y for point in points(curves)]
        assert all(before <= after + 1e-6 for before, after in pairwise(ys))
        others = [c for row in layers.rows for c in row if c.kind != "bend" and c not in chain]
        assert not any(hits(curves, other) for other in others)


@given(dags(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_back_edge_hits_no_box(dag, data):
    layers = layout(*dag)
    names = st.sampled_from(list(dag[0]))
    source, target = layers.nodes[data.draw(names)], layers.nodes[data.draw(names)]
    spot = loop(source, target, layers, data.draw(st.integers(0, 2)))
    boxes = [cell for row in layers.rows for cell in row if cell.kind != "bend"]
    assert not any(hits(spot.curves, cell) for cell in boxes)
    assert spot.label.x > max(cell.right for cell in boxes)


@given(dags())
@settings(max_examples=60, deadline=None)
def test_every_edge_leads_to_a_later_layer_with_one_label_on_the_way(dag):
    layers = layers_of(*dag)
    for chain in layers.chains.values():
        assert [cell.layer for cell in chain] == list(range(chain[0].layer, chain[-1].layer + 1))
        assert [cell.kind for cell in chain].count("label") == 1


def test_a_chain_is_drawn_as_one_vertical_line():
    box, label = (80.0, 30.0), (50.0, 12.0)
    layers = layout(dict.fromkeys("abc", box), {("a", "b"): label, ("b", "c"): label})
    assert len({round(cell.x, 6) for row in layers.rows for cell in row}) == 1


def test_crossings_that_can_be_avoided_are():
    # a feeds d, b feeds c: drawn in the order of their names, they would cross.
    box, label = (80.0, 30.0), (50.0, 12.0)
    layers = layout(dict.fromkeys("abcd", box), {("a", "d"): label, ("b", "c"): label})
    x = {name: cell.x for name, cell in layers.nodes.items()}
    assert (x["a"] < x["b"]) == (x["d"] < x["c"])
