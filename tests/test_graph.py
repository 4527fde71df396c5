"""Graphs are checked while they are built; messages name node, port, types and line."""

from typing import Any

import networkx as nx
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rlgraph import Graph, GraphError, node
from rlgraph.engines.protocols import Loss, Sampler, Trainer
from rlgraph.models import Stateful
from rlgraph.records import Prompts, Rollout, Sequences
from rlgraph.settings import PolicyConfig
from tests.toys import Counter, double, group_total, shift, source, toy_graph, whole_mean

COUNTER = Stateful("counter", Counter, Counter)


@node
def sample(policy: Sampler, prompts: Prompts, *, samples: int = 1) -> Rollout:
    return policy.generate(prompts, samples=samples)


@node(forwards="loss")
def train(model: Trainer, loss: Loss, rows: Sequences, **inputs: Any) -> None:
    model.train(loss, rows, inputs)


def a_loss(
    logprobs: Float[Tensor, "batch seq"],
    rollout: Rollout,
    advantages: Float[Tensor, "batch seq"],
    *,
    clip: float = 0.2,
) -> Float[Tensor, "batch seq"]:
    return -logprobs * advantages


def a_value_loss(
    values: Float[Tensor, "batch seq"], rollout: Rollout
) -> Float[Tensor, "batch seq"]:
    return values


@pytest.fixture
def wired():
    policy = PolicyConfig()()
    with Graph("test") as graph:
        prompts = source(COUNTER, lengths=[1, 2])
        yield graph, policy, prompts, sample(policy, prompts, samples=2)


def test_nodes_are_recorded_with_typed_edges():
    graph = toy_graph([1, 2])
    assert list(graph.nodes) == ["source", "double", "group_total", "whole_mean", "shift"]
    edges = {(a, b, d["port"]): str(d["value"].type) for a, b, d in graph.dag.edges(data=True)}
    assert edges == {
        ("source", "double", "prompts"): "Prompts",
        ("double", "group_total", "x"): "Float[batch seq]",
        ("source", "group_total", "group"): "Int[batch]",
        ("group_total", "whole_mean", "x"): "Float[batch]",
        ("group_total", "shift", "x"): "Float[batch]",
        ("whole_mean", "shift", "by"): "Float[]",
    }
    assert nx.is_directed_acyclic_graph(graph.dag)


def test_the_same_function_twice_gives_two_nodes(wired):
    graph, policy, prompts, _ = wired
    sample(policy, prompts)
    assert list(graph.nodes) == ["source", "sample", "sample_2"]


def test_a_node_knows_its_line_and_its_resident(wired):
    graph, *_ = wired
    assert graph.nodes["sample"].where.rpartition(":")[0] == __file__
    assert set(graph.residents) == {"counter", "policy.sampler"}


def test_the_trainer_is_another_resident_than_the_sampler(wired):
    graph, policy, _, rollout = wired
    train(policy, a_loss, rollout, advantages=rollout.logprobs, clip=0.1)
    assert set(graph.residents) == {"counter", "policy.sampler", "policy.trainer"}
    assert graph.nodes["train"].constants == {"loss": a_loss, "clip": 0.1}


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        (lambda p, s, r: sample(p, r), "sample: 'prompts' takes Prompts, but sample is Rollout"),
        (
            lambda p, s, r: group_total(r.truncated, r.group),
            r"group_total: 'x' takes Float\[batch seq\], but sample.truncated is Bool\[batch\]",
        ),
        (
            lambda p, s, r: group_total(r, r.group),
            r"'x' takes Float\[batch seq\], but sample is Rollout; "
            "of its fields these fit: sample.logprobs",
        ),
        (lambda p, s, r: r.grup, "sample is Rollout and has no 'grup'; its fields are tokens,"),
        (lambda p, s, r: sample(COUNTER, s), "takes a Sampler, but 'counter' is a Stateful"),
        (lambda p, s, r: sample(p.frozen(), s), "'reference' is a Reference, which can be: Scorer"),
        (lambda p, s, r: sample(p, s, samples="many"), "'samples' takes int, got 'many'"),
        (lambda p, s, r: sample(p, s, samples=r.group), "a constant, but sample.group is a graph"),
        (lambda p, s, r: sample(p, s, smples=2), "unexpected keyword argument 'smples'; its ports"),
        (lambda p, s, r: sample(p), "missing a required argument: 'prompts'"),
        (lambda p, s, r: train(p, a_loss, r), "train: a_loss also needs advantages=..."),
        (lambda p, s, r: train(p, a_loss, r, advantages=r.group), "'advantages' takes Float"),
        (
            lambda p, s, r: train(p, a_loss, r, advantages=r.logprobs, clp=1.0),
            "train has no port 'clp'; it has advantages, clip, model, loss, rows",
        ),
        (
            lambda p, s, r: train(p, a_value_loss, r),
            "a_value_loss wants values, but 'policy' gives logprobs, entropy",
        ),
        (lambda p, s, r: bool(r), "it cannot decide an if"),
        (lambda p, s, r: list(r), "it has no rows until it runs"),
    ],
)
def test_wiring_that_does_not_fit(wired, wire, message):
    _, policy, prompts, rollout = wired
    with pytest.raises(GraphError, match=message) as error:
        wire(policy, prompts, rollout)
    assert str(error.value).startswith(f"{__file__}:"), "the line of the graph file"


def test_a_value_of_another_graph_is_refused(wired):
    _, _, foreign, _ = wired
    with Graph("other"), pytest.raises(GraphError, match="cannot cross into graph other"):
        double(foreign)


def test_a_value_outside_any_graph_is_refused():
    with Graph("closed"):
        prompts = source(COUNTER, lengths=[1])
    with pytest.raises(GraphError, match="outside `with Graph"):
        double(prompts)


def test_two_models_of_one_name_are_refused(wired):
    graph, _, prompts, _ = wired
    sample(PolicyConfig(temperature=0.5)(), prompts)
    with pytest.raises(GraphError, match="'policy.sampler' with other settings"):
        _ = graph.residents


def test_an_empty_graph_is_refused():
    with pytest.raises(GraphError, match="graph nothing is empty"):
        Graph("nothing").order()


def test_rewiring_replaces_an_edge():
    graph = toy_graph([3])
    with graph:
        other = group_total(double(_output(graph, "source")), _output(graph, "source").group)
    graph.rewire("shift", "x", other)
    assert graph.nodes["shift"].inputs["x"].node.name == "group_total_2"
    assert [node.name for node in graph.order()][-1] == "shift"


def test_rewiring_into_a_cycle_is_refused():
    graph = toy_graph([3])
    with pytest.raises(GraphError, match="cycle: .*whole_mean.*shift"):
        with graph:
            graph.rewire("whole_mean", "x", _output(graph, "shift"))
        shift(_output(graph, "shift"), whole_mean(torch.ones(2)))


def _output(graph, name):
    from rlgraph.graph import Value

    return Value(graph.nodes[name], graph.nodes[name].function.result)
