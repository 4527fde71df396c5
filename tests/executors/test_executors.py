"""Both executors give the same numbers for the same graph."""

import pytest
import torch

from rlgraph import EngineError, Graph, PlacementError
from rlgraph.executors.local import LocalExecutor
from rlgraph.graphfile import load_graph_file
from rlgraph.models import Stateful
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.modes import place
from rlgraph.scheduling.planner import plan_step
from rlgraph.settings import PolicyConfig, RunContext, TrainerConfig
from tests.toys import Counter, double, fail, group_total, prompts_of, shift, source, toy_graph

NO_DEVICES = place({}, "colocate", Devices("cpu", 1, None))


@pytest.mark.parametrize("lengths", [[3, 1, 4, 1, 5], [2], []], ids=["many", "one", "none"])
def test_local_and_ray_agree(local_executor, ray_executor, lengths):
    graph = toy_graph(lengths)
    plan = plan_step(graph, NO_DEVICES, {})
    given = prompts_of(lengths, group=[row % 2 for row in range(len(lengths))])
    for executor in (local_executor, ray_executor):
        executor.inject({"source": given})
        executor.run(plan)
    for name in ("double", "group_total", "shift"):
        ours, theirs = local_executor.fetch(name), ray_executor.fetch(name)
        assert ours.shape[0] == len(lengths)
        torch.testing.assert_close(theirs, ours, equal_nan=True)


def test_rows_come_back_in_order_whatever_worker_had_them(ray_executor):
    lengths = [5, 1, 4, 2, 3, 9, 1]
    ray_executor.run(plan_step(toy_graph(lengths), NO_DEVICES, {}))
    prompts, doubled = ray_executor.fetch("source"), ray_executor.fetch("double")
    assert prompts.attention_mask.sum(-1).tolist() == lengths
    assert torch.equal(doubled, prompts.tokens * 2.0)
    assert [c["row"] for c in ray_executor.fetch("source", 3).columns] == [0, 3, 6]


def test_a_state_lives_on_from_step_to_step(ray_executor):
    plan = plan_step(toy_graph([1]), NO_DEVICES, {})
    seen = []
    for _ in range(3):
        ray_executor.run(plan)
        seen.append(int(ray_executor.fetch("source").tokens[0, 0]))
    assert seen == [seen[0], seen[0] + 1, seen[0] + 2]
    assert ray_executor.call("counter", "state_dict")["count"] == seen[-1]


def failing_graph() -> Graph:
    with Graph("failing") as graph:
        prompts = source(Stateful("counter", Counter, Counter), lengths=[1, 2])
        fail(group_total(double(prompts), prompts.group))
    return graph


def test_a_failing_node_is_named_with_its_line_and_traceback(ray_executor):
    plan = plan_step(failing_graph(), NO_DEVICES, {})
    with pytest.raises(EngineError, match=r"fail on worker . failed: in node fail, made at") as got:
        ray_executor.run(plan)
    assert __file__ in str(got.value)
    assert "ZeroDivisionError: on purpose" in str(got.value)


def test_in_process_the_error_itself_comes_through(local_executor):
    with pytest.raises(ZeroDivisionError) as got:
        local_executor.run(plan_step(failing_graph(), NO_DEVICES, {}))
    assert any("in node fail, made at" in note for note in got.value.__notes__)


def test_inputs_that_differ_in_rows_are_refused(ray_executor):
    with Graph("uneven") as graph:
        state = Stateful("counter", Counter, Counter)
        few, many = source(state, lengths=[1]), source(state, lengths=[1, 1])
        group_total(double(few), many.group)
    with pytest.raises(EngineError, match="group_total: its inputs differ in rows: x has 1, group"):
        ray_executor.run(plan_step(graph, NO_DEVICES, {}))


def test_one_process_cannot_be_two_ranks():
    policy = PolicyConfig(trainer=TrainerConfig(ranks=2))()
    with pytest.raises(PlacementError, match="policy.trainer wants 2 workers"):
        LocalExecutor({"policy.trainer": policy.trainer}, RunContext())


def test_shift_is_row_wise():
    assert shift(torch.tensor([1.0, 2.0]), torch.tensor(1.0)).tolist() == [0.0, 1.0]


OWN_FILE = """
from collections.abc import Callable
from dataclasses import dataclass
from jaxtyping import Float
from torch import Tensor
from rlgraph import Graph, node
from rlgraph.models import Stateful
from tests.toys import Counter, double, source

@dataclass
class Config:
    pass

def negate(x):
    return -flip(x)

def flip(x):
    return 2 * x

@node
def apply(x: Float[Tensor, "batch seq"], how: Callable) -> Float[Tensor, "batch seq"]:
    return how(x)

def build(config: Config) -> Graph:
    with Graph("own") as graph:
        apply(double(source(Stateful("counter", Counter, Counter), lengths=[2])), negate)
    return graph
"""


def test_plain_functions_of_a_users_file_reach_the_workers(ray_executor, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN_FILE)
    file = load_graph_file(str(path))
    ray_executor.run(plan_step(file.build(file.config_type()), NO_DEVICES, {}))
    assert torch.equal(ray_executor.fetch("apply"), -2 * ray_executor.fetch("double"))
