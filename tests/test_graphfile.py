"""Graph files load from anywhere, and a bad one says where its mistake is and what to do."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

import rlgraph.graphs.grpo
from rlgraph import Graph, GraphError
from rlgraph.graphfile import load_graph_file

BAD = Path(__file__).parent / "bad_graphs"
GRPO = Path(rlgraph.graphs.grpo.__file__)

# Each file's mistake, and what its message says besides the place.
MISTAKES = {
    "no_build": "there is no build(); a graph file needs `def build(config: Config) -> Graph`",
    "mistyped_edge": "spread: 'x' takes Float[batch seq], but start is Float[batch]",
    "cycle": "graph cyclic has a cycle: follow -> follow_2 -> follow; only a policy's update may",
    "empty": "graph nothing is empty: call its nodes inside `with Graph(...) as graph:`",
    "unannotated": "build() must take one parameter that is annotated with a dataclass",
    "not_a_dataclass": "build() must take one parameter that is annotated with a dataclass",
    "returns_nothing": "build() returned NoneType, not a Graph; end it with `return graph`",
    "outside": "follow was called with a graph value outside `with Graph(...)`",
    "branches": "cannot decide an if. Put the decision into a node",
    "fails_to_import": "No module named 'no_such_package_anywhere'",
    "unknown_type": "name 'Confg' is not defined",
}


def build(target: str) -> Graph:
    file = load_graph_file(target)
    return file.build(file.config_type())


def test_every_bad_graph_is_tried() -> None:
    assert set(MISTAKES) == {path.stem for path in BAD.glob("*.py")} - {"parts"}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_graph_names_its_file_its_line_and_the_cure(name: str) -> None:
    path = BAD / f"{name}.py"
    with pytest.raises(GraphError) as caught:
        build(str(path))
    message = str(caught.value)
    assert MISTAKES[name] in message
    assert str(path) in message
    lines = path.read_text().splitlines()
    for number in [number for number, line in enumerate(lines, 1) if "# the mistake" in line]:
        assert f"{path}:{number}" in message or f'"{path}", line {number}' in message


def test_a_file_that_fails_leaves_no_half_loaded_module() -> None:
    with pytest.raises(GraphError):
        load_graph_file(str(BAD / "fails_to_import.py"))
    assert "graph_file_fails_to_import" not in sys.modules


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere/mine.py", "nowhere/mine.py: no such file"),
        ("grpo.py", "the one that comes with rlgraph is rlgraph.graphs.grpo"),
        ("no_such_module", "neither a .py file nor a module"),
        ("no.such.module", "neither a .py file nor a module"),
        ("rlgraph.graphs.no_such", "neither a .py file nor a module"),
        ("", "neither a .py file nor a module"),
        ("rlgraph.errors", "there is no build()"),
    ],
)
def test_what_is_not_there_is_said_so(
    target: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphError) as caught:
        load_graph_file(target)
    assert says in str(caught.value)


def test_a_dotted_module_that_fails_to_import_is_named() -> None:
    with pytest.raises(GraphError, match=r"fails_to_import: importing it fails"):
        load_graph_file("tests.bad_graphs.fails_to_import")


def test_a_file_anywhere_on_disk_is_a_graph_file(tmp_path: Path) -> None:
    folder = tmp_path / "some where"
    folder.mkdir()
    copy = folder / "my_algo.py"
    shutil.copy(GRPO, copy)
    file = load_graph_file(str(copy))
    assert (file.name, file.where) == ("my_algo", str(copy))
    assert file.summary.startswith("GRPO")
    theirs = build("rlgraph.graphs.grpo")
    assert list(file.build(file.config_type()).nodes) == list(theirs.nodes)


def test_a_file_can_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_graph.py").write_text("NAME = 'neighbourly'\n")
    source = (BAD / "empty.py").read_text()
    source = source.replace("from rlgraph", "import beside_the_graph\nfrom rlgraph", 1)
    source = source.replace('"nothing"', "beside_the_graph.NAME")
    (tmp_path / "graph_with_neighbour.py").write_text(source)
    with pytest.raises(GraphError, match="graph neighbourly is empty"):
        build(str(tmp_path / "graph_with_neighbour.py"))


def test_path_and_dotted_name_of_a_packaged_graph_are_one_module() -> None:
    by_path, by_name = load_graph_file(str(GRPO)), load_graph_file("rlgraph.graphs.grpo")
    assert by_path == by_name
    assert by_path.config_type is rlgraph.graphs.grpo.Config
    assert by_path.name == "grpo"


def test_a_file_named_like_a_library_does_not_shadow_it(tmp_path: Path) -> None:
    path = tmp_path / "torch.py"
    shutil.copy(BAD / "empty.py", path)
    with pytest.raises(GraphError, match="graph nothing is empty"):
        build(str(path))
    assert sys.modules["torch"] is torch
    import torch.nn.functional as functional  # what is imported later comes from the library too

    assert Path(functional.__file__).is_relative_to(Path(torch.__file__).parent)
