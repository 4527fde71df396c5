"""Random graphs, placements and memory tables, as hypothesis strategies."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from rlgraph import Graph, Split, node
from rlgraph.engines.protocols import Loss, Sampler, Scorer, Trainer, ValueModel
from rlgraph.models import Critic, Stateful
from rlgraph.records import Prompts, Rollout, Sequences
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.placement import DeviceSet, Placement
from rlgraph.settings import PolicyConfig
from tests.toys import Counter, source


@node(split=Split.ROWS)
def generate(policy: Sampler, prompts: Prompts) -> Rollout:
    return policy.generate(prompts)


@node(split=Split.ROWS)
def logprobs(model: Scorer, rollout: Sequences) -> Float[Tensor, "batch seq"]:
    return model.logprobs(rollout)


@node(split=Split.ROWS)
def values(model: ValueModel, rollout: Sequences) -> Float[Tensor, "batch seq"]:
    return model.values(rollout)


@node(split=Split.ROWS)
def add(x: Float[Tensor, "batch seq"], y: Float[Tensor, "batch seq"]) -> Float[Tensor, "batch seq"]:
    return x + y


@node
def centre(x: Float[Tensor, "batch seq"]) -> Float[Tensor, "batch seq"]:
    return x - x.mean()


@node(forwards="loss")
def update(model: Trainer, loss: Loss, rows: Sequences, **inputs: Any) -> None:
    model.train(loss, rows, inputs)


def policy_loss(
    logprobs: Float[Tensor, "batch seq"], rollout: Rollout, target: Float[Tensor, "batch seq"]
) -> Float[Tensor, "batch seq"]:
    return logprobs - target


def critic_loss(
    values: Float[Tensor, "batch seq"], rollout: Rollout, target: Float[Tensor, "batch seq"]
) -> Float[Tensor, "batch seq"]:
    return values - target


def small_grpo(scorers: int = 1) -> Graph:
    """Sampling, some references, one update."""
    with Graph("grpo") as graph:
        policy = PolicyConfig()()
        prompts = source(Stateful("counter", Counter, Counter), lengths=[1])
        rollout = generate(policy, prompts)
        for number in range(scorers):
            reference = logprobs(policy.frozen(f"reference{number}"), rollout)
        update(policy, policy_loss, rollout, target=reference)
    return graph


@st.composite
def graphs(draw: Any) -> Graph:
    """One policy; rows that several models score, mix and train on, in any order."""
    with Graph("random") as graph:
        policy = PolicyConfig()()
        critics = [Critic(f"critic{i}", PolicyConfig()) for i in range(draw(st.integers(0, 2)))]
        prompts = source(Stateful("counter", Counter, Counter), lengths=[1])
        rollouts = [generate(policy, prompts) for _ in range(draw(st.integers(1, 2)))]
        scored = [(logprobs(policy, row), row) for row in rollouts[:1]]
        for number in range(draw(st.integers(0, 5))):
            rollout = draw(st.sampled_from(rollouts))
            match draw(st.sampled_from(["reference", "own", "critic", "add", "centre"])):
                case "reference":
                    given = logprobs(policy.frozen(f"reference{number}"), rollout)
                case "own":
                    given = logprobs(policy, rollout)
                case "critic" if critics:
                    given = values(draw(st.sampled_from(critics)), rollout)
                case "add":
                    rollout = rollouts[0]
                    own = [value for value, rows in scored if rows is rollout]
                    given = add(draw(st.sampled_from(own)), draw(st.sampled_from(own)))
                case _:
                    value, rollout = draw(st.sampled_from(scored))
                    given = centre(value)
            scored.append((given, rollout))
        for model in draw(st.permutations([policy, *critics])):
            value, rows = draw(st.sampled_from(scored))
            loss = policy_loss if model is policy else critic_loss
            update(model, loss, rows, target=value)
    return graph


@dataclass(frozen=True)
class Case:
    graph: Graph
    placement: Placement
    memory: dict[str, Memory]


def placed(graph: Graph, budget: int | None, together: bool = True) -> Placement:
    """Everyone on one device, or each on one of its own."""
    names = sorted(name for name, resident in graph.residents.items() if resident.on_device)
    homes = {name: "shared" if together else name for name in names}
    sets = {home: DeviceSet(home, 1) for home in homes.values()}
    return Placement(sets, homes, Devices("cpu", len(sets), budget))


@st.composite
def cases(draw: Any, *, sampler_alone: bool = False) -> Case:
    """A graph, with its residents on up to three device sets of a common budget."""
    graph = draw(graphs())
    names = sorted(name for name, resident in graph.residents.items() if resident.on_device)
    homes = {name: draw(st.sampled_from(["a", "b", "c"])) for name in names}
    if sampler_alone:
        homes["policy.sampler"] = "sampling"
    sets = {home: DeviceSet(home, draw(st.integers(1, 3))) for home in homes.values()}
    memory = {}
    for name in names:
        asleep = draw(st.integers(0, 1))
        weights = asleep + draw(st.integers(0, 3))
        awake = weights + draw(st.integers(0, 5))
        sampler = name.endswith(".sampler")
        memory[name] = Memory(awake, asleep, weights if sampler else None)
    budget = draw(st.none() | st.integers(4, 30))
    return Case(graph, Placement(sets, homes, Devices("cpu", 9, budget)), memory)
