import re

import pytest
from jaxtyping import Float
from torch import Tensor

from rlgraph import Graph, GraphError, node
from rlgraph.draw import mermaid
from rlgraph.engines.protocols import Scorer
from rlgraph.models import Reference
from rlgraph.settings import PolicyConfig


def edges(text: str) -> dict[tuple[str, str], list[str]]:
    found = re.findall(r'^ *n_(\w+) (?:-->|-\.->)\|"(.*)"\| n_(\w+)$', text, re.MULTILINE)
    return {(source, target): label.split("<br>") for source, label, target in found}


def test_every_node_is_there_with_its_resident(graph):
    text = mermaid(graph)
    assert text.startswith("flowchart TD\n")
    for name in graph.nodes:
        assert f'n_{name}["<b>{name}</b>' in text
    assert "policy.sampler (sampler)" in text
    assert "judge (reward)" in text
    assert "my_loss<br>policy.trainer (trainer)" in text


def test_every_edge_is_there_with_its_types(graph):
    assert edges(mermaid(graph)) == {
        ("take", "sample"): ["Prompts"],
        ("sample", "score"): ["Rollout"],
        ("sample", "reference_logprobs"): ["Rollout"],
        ("score", "baseline"): ["scores → rewards: Float[batch]"],
        ("sample", "baseline"): ["group: Int[batch]", "action_mask → mask: Bool[batch seq]"],
        ("sample", "learn"): ["Rollout"],
        ("baseline", "learn"): ["advantages: Float[batch seq]"],
        ("reference_logprobs", "learn"): ["reference: Float[batch seq]"],
        ("learn", "sample"): ["next step's weights"],
    }


def test_only_the_way_back_is_dashed(graph):
    dashed = [line for line in mermaid(graph).splitlines() if "-.->" in line]
    assert dashed == ["""    n_learn -.->|"next step's weights"| n_sample"""]


def test_residents_have_colours_of_their_own_and_pure_functions_none(graph):
    text = mermaid(graph)
    classes = dict(re.findall(r'^ *n_(\w+)\[".*"\]:::(\w+)$', text, re.MULTILINE))
    assert classes.pop("baseline") == "pure"
    assert len(set(classes.values())) == 5
    fills = re.findall(r"classDef \w+ fill:(#\w{6})", text)
    assert len(set(fills)) == len(fills) == 6


@node
def end(model: Scorer) -> Float[Tensor, " batch"]: ...


@node
def both(a: Float[Tensor, " batch"], b: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]: ...


def test_a_reserved_word_is_no_id_and_a_value_used_twice_shows_both_ports():
    with Graph("words") as graph:
        value = end(Reference("reference", PolicyConfig()))
        both(value, value)
    text = mermaid(graph)
    assert not re.search(r"^ *end\b", text, re.MULTILINE)
    assert edges(text) == {("end", "both"): ["a: Float[batch]", "b: Float[batch]"]}


def test_an_empty_graph_is_an_error():
    with pytest.raises(GraphError, match="empty"):
        mermaid(Graph("nothing"))
