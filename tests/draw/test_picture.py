import sys
from xml.etree import ElementTree

import pytest

from rlgraph import RlgraphError
from rlgraph.draw import draw
from rlgraph.graph import Graph

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("scipy")


def test_svg_has_every_name_and_type_as_text(graph, tmp_path):
    path = tmp_path / "graph.svg"
    draw(graph, path)
    texts = {element.text for element in ElementTree.parse(path).iter() if element.text}
    words = {text.strip() for text in texts}
    assert {*graph.nodes, *graph.residents, "my_loss", "example"} <= words
    assert {
        "Prompts",
        "Rollout",
        "scores → rewards: Float[batch]",
        "group: Int[batch]",
        "action_mask → mask: Bool[batch seq]",
        "advantages: Float[batch seq]",
        "reference: Float[batch seq]",
    } <= words
    assert {"policy.sampler (sampler)", "judge (reward)", "prompts", "pure function"} <= words


def test_the_same_graph_gives_the_same_svg(graph, tmp_path):
    for name in ("one.svg", "two.svg"):
        draw(graph, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_png_is_white_with_something_on_it(graph, tmp_path):
    path = tmp_path / "graph.png"
    draw(graph, path)
    pixels = matplotlib.image.imread(path)[..., :3]
    assert (pixels[0, 0] == 1).all() and (pixels[-1, -1] == 1).all()
    inked = (pixels < 0.99).any(-1).mean()
    assert 0.03 < inked < 0.5


def test_pdf_opens_like_one(graph, tmp_path):
    path = tmp_path / "graph.pdf"
    draw(graph, path)
    assert path.read_bytes().startswith(b"%PDF")


def test_text_fits_its_box(graph, tmp_path):
    from rlgraph.draw.picture import _box_size
    from rlgraph.draw.scene import scene_of
    from rlgraph.draw.style import width

    for box in scene_of(graph).boxes:
        assert width(box.name, 11.0, bold=True) < _box_size(box)[0] - 20


def test_another_ending_is_an_error_that_names_the_right_ones(graph, tmp_path):
    with pytest.raises(RlgraphError, match=r"graph\.jpeg: a picture ends in \.svg, \.png, \.pdf"):
        draw(graph, tmp_path / "graph.jpeg")


def test_a_missing_folder_is_an_error(graph, tmp_path):
    with pytest.raises(RlgraphError, match="there is no folder"):
        draw(graph, tmp_path / "missing" / "graph.svg")


def test_an_empty_graph_is_an_error(tmp_path):
    with pytest.raises(RlgraphError, match="empty"):
        draw(Graph("nothing"), tmp_path / "graph.svg")


def test_without_matplotlib_the_error_says_what_to_install(graph, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rlgraph.draw.picture", None)
    with pytest.raises(RlgraphError, match=r"pip install 'rlgraph\[draw\]'"):
        draw(graph, tmp_path / "graph.svg")
