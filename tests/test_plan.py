"""Plans are valid whatever the graph, the placement and the memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from rlgraph import Graph, PlacementError, node
from rlgraph.engines.protocols import Loss, Sampler, Scorer, Trainer
from rlgraph.memory import Memory
from rlgraph.models import Stateful
from rlgraph.placement import Devices, DeviceSet, Placement
from rlgraph.plan import Run, Sleep, SyncWeights, Wake, plan_step
from rlgraph.records import Prompts, Rollout, Sequences
from rlgraph.settings import PolicyConfig
from tests.toys import Counter, source


@node
def generate(policy: Sampler, prompts: Prompts) -> Rollout:
    return policy.generate(prompts)


@node
def logprobs(model: Scorer, rollout: Sequences) -> Float[Tensor, "batch seq"]:
    return model.logprobs(rollout)


@node(forwards="loss")
def update(model: Trainer, loss: Loss, rows: Sequences, **inputs: Any) -> None:
    model.train(loss, rows, inputs)


def a_loss(
    logprobs: Float[Tensor, "batch seq"], rollout: Rollout, reference: Float[Tensor, "batch seq"]
) -> Float[Tensor, "batch seq"]:
    return logprobs - reference


def small_grpo(scorers: int = 1) -> Graph:
    with Graph("grpo") as graph:
        policy = PolicyConfig()()
        prompts = source(Stateful("counter", Counter, Counter), lengths=[1])
        rollout = generate(policy, prompts)
        for number in range(scorers):
            reference = logprobs(policy.frozen(f"reference{number}"), rollout)
        update(policy, a_loss, rollout, reference=reference)
    return graph


def placed(graph: Graph, budget: int | None, together: bool) -> Placement:
    names = sorted(name for name, resident in graph.residents.items() if resident.kind != "state")
    homes = {name: "shared" if together else name for name in names}
    sets = {home: DeviceSet(home, 1) for home in homes.values()}
    return Placement(sets, homes, Devices("cpu", len(sets), budget))


def test_a_step_in_order():
    graph = small_grpo()
    plan = plan_step(graph, placed(graph, None, True), {n: Memory(1) for n in graph.residents})
    awake = [e.action for e in plan.events if not isinstance(e.action, Wake)]
    assert awake == [
        Run("source", "counter"),
        SyncWeights("policy.trainer", "policy.sampler"),
        Run("generate", "policy.sampler"),
        Run("logprobs", "reference0"),
        Run("update", "policy.trainer"),
    ]
    assert plan.awake == {"policy.trainer", "policy.sampler", "reference0"}


@given(
    st.integers(1, 4),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 10), st.integers(0, 1)), min_size=6, max_size=6),
    st.integers(1, 40),
    st.integers(1, 3),
)
def test_invariants(scorers, together, sizes, budget, steps):
    graph = small_grpo(scorers)
    placement = placed(graph, budget, together)
    memory = {
        name: Memory(awake, min(asleep, awake))
        for name, (awake, asleep) in zip(sorted(placement.homes), sizes, strict=False)
    }
    awake: frozenset[str] = frozenset()
    for _ in range(steps):
        try:
            plan = plan_step(graph, placement, memory, awake)
        except PlacementError as error:
            assert "it is short of" in str(error)
            return
        check(graph, placement, memory, awake, plan)
        awake = plan.awake


def check(graph, placement, memory, awake, plan):
    awake, ran, synced = set(awake), [], False
    fits = all(
        sum(memory[name].awake for name in placement.tenants(home)) <= placement.devices.memory
        for home in placement.sets
    )
    for index, event in enumerate(plan.events):
        assert all(earlier < index for earlier in event.after)
        match event.action:
            case Wake(resident=name):
                assert name not in awake
                awake.add(name)
            case Sleep(resident=name):
                assert not fits, "nothing sleeps if everything fits"
                awake.remove(name)
            case SyncWeights(trainer=trainer, sampler=sampler):
                assert {trainer, sampler} <= awake
                synced = True
            case Run(node=name, resident=resident):
                assert resident in awake or resident not in placement.homes
                assert all(v.node.name in ran for v in graph.nodes[name].inputs.values())
                assert synced or name != "generate"
                ran.append(name)
        for home in placement.sets:
            held = sum(
                memory[name].awake if name in awake else memory[name].asleep
                for name in placement.tenants(home)
            )
            over = held > placement.devices.memory
            assert not over or not isinstance(event.action, Wake), "never over budget"
    assert sorted(ran) == sorted(graph.nodes), "every node exactly once"
    assert plan.awake == awake


def test_residents_with_devices_of_their_own_do_not_wait_for_each_other():
    graph = small_grpo(scorers=2)
    memory = {name: Memory(1) for name in graph.residents}
    plan = plan_step(graph, placed(graph, None, False), memory, graph.residents)
    index = {e.action.node: i for i, e in enumerate(plan.events) if isinstance(e.action, Run)}
    assert plan.events[index["logprobs_2"]].after == (index["generate"],)


def test_the_one_needed_last_sleeps_first():
    graph = small_grpo(scorers=2)
    memory = {"policy.trainer": 4, "policy.sampler": 4, "reference0": 2, "reference1": 2}
    table = {name: Memory(size) for name, size in memory.items()}
    placement = placed(graph, 10, True)
    first = plan_step(graph, placement, table)
    assert [e.action for e in first.events if isinstance(e.action, Sleep)] == [
        # The trainer is needed next; the sampler comes before this one in the next step.
        Sleep("reference0")
    ]


def test_what_cannot_fit_says_by_how_much_it_is_short():
    graph = small_grpo()
    memory = {name: Memory(3 << 30) for name in graph.residents}
    with pytest.raises(PlacementError, match="policy.sampler needs 3.00 GiB.*short of 2.00 GiB"):
        plan_step(graph, placed(graph, 4 << 30, True), memory)


def test_the_same_plan_whatever_the_dict_order():
    graph = small_grpo(3)
    placement = placed(graph, 12, True)
    memory = {name: Memory(4) for name in placement.homes}
    reverse = Placement(placement.sets, dict(reversed(placement.homes.items())), placement.devices)
    assert (
        plan_step(graph, placement, memory).events
        == plan_step(graph, reverse, dict(reversed(memory.items()))).events
    )
