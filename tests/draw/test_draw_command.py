import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest

from rlgraph import GraphError, RlgraphError
from rlgraph.draw.__main__ import main


@dataclass(frozen=True)
class Config:
    title: str = "plain"


@pytest.fixture
def graph_file(graph, monkeypatch):
    """A loader that knows one graph file; what it was asked for, and with which settings."""
    asked: list[object] = []

    def build(config: Config):
        asked.append(config)
        return graph

    def load_graph_file(target: str):
        if target != "example.py":
            raise GraphError(f"there is no graph file {target}")
        return SimpleNamespace(config_type=Config, build=build)

    module = ModuleType("rlgraph.graphfile")
    module.load_graph_file = load_graph_file
    monkeypatch.setitem(sys.modules, "rlgraph.graphfile", module)
    return asked


def test_without_an_output_mermaid_is_printed(graph_file, capsys):
    assert main(["example.py"]) == 0
    assert capsys.readouterr().out.startswith("flowchart TD\n")
    assert graph_file == [Config()]


def test_an_output_is_drawn(graph_file, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("scipy")
    assert main(["example.py", "-o", str(tmp_path / "graph.svg")]) == 0
    assert (tmp_path / "graph.svg").stat().st_size > 1000
    assert capsys.readouterr().out == ""


def test_further_flags_are_the_graph_files(graph_file):
    assert main(["example.py", "--title", "other"]) == 0
    assert graph_file == [Config(title="other")]


def test_a_flag_with_a_typo_ends_with_an_error(graph_file, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["example.py", "--titel", "other"])
    assert stopped.value.code != 0
    assert "--title" in capsys.readouterr().err


def test_an_error_that_users_are_meant_to_read_has_no_traceback(graph_file, capsys):
    assert main(["missing.py"]) == 1
    assert capsys.readouterr().err == "error: there is no graph file missing.py\n"
    assert issubclass(GraphError, RlgraphError)
