"""What the README shows works as it is shown."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from rlgraph import GraphError
from rlgraph.config import OnPolicyConfig
from rlgraph.graphfile import load_graph_file

ROOT = Path(__file__).parents[1]
SHOWN, ALGORITHM, TESTS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE
)


def body(source: str) -> str:
    """The code of ``build``, whatever its layout and docstring."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    build = next(function for function in functions if function.name == "build")
    statements = [s for s in build.body if not isinstance(s, ast.Expr)]
    return "\n".join(ast.dump(statement) for statement in statements)


def test_grpo_is_what_the_readme_says_it_is():
    assert body(SHOWN) == body((ROOT / "graphs" / "grpo.py").read_text())


@pytest.fixture
def rank(tmp_path):
    path = tmp_path / "rank.py"
    path.write_text(ALGORITHM + "\n\n" + TESTS)
    return load_graph_file(str(path))


def test_the_algorithm_of_the_readme_builds(rank):
    graph = rank.build(OnPolicyConfig())
    assert list(graph.nodes) == ["take_prompts", "generate", "score", "rank_advantage", "update"]


@pytest.mark.filterwarnings("ignore:.*function-scoped")
def test_the_tests_of_the_readme_pass(rank):
    module = importlib.import_module("graph_file_rank")
    tests = [function for name, function in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 2
    for run in tests:
        run()


def test_the_wrong_wire_of_the_readme_is_refused_as_shown(tmp_path):
    path = tmp_path / "rank.py"
    path.write_text(
        ALGORITHM.replace("rank_advantage(rewards, rollout.g", "rank_advantage(rollout, rollout.g")
    )
    file = load_graph_file(str(path))
    with pytest.raises(GraphError) as error:
        file.build(OnPolicyConfig())
    message = str(error.value).replace(f"{tmp_path}/", "")
    assert f"GraphError: {message}" in (ROOT / "README.md").read_text()
