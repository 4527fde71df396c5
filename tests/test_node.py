"""A node function runs on tensors, and says what does not fit."""

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlgraph import GraphError, Split, node
from rlgraph.engines.protocols import Sampler, Scorer
from rlgraph.records import Rewards
from tests.toys import group_total


@node(split=Split.ROWS)
def scale(
    rewards: Rewards,
    weight: Float[Tensor, " batch"] | None = None,
    *,
    factor: float = 2.0,
) -> Float[Tensor, " batch"]:
    """Doc."""
    return rewards.scores * factor * (1.0 if weight is None else weight)


def test_called_with_tensors_it_runs():
    assert scale(Rewards.of([1.0, 3.0]), factor=3.0).tolist() == [3.0, 9.0]


def test_optional_port_takes_none_or_a_tensor():
    assert scale(Rewards.of([1.0]), None).tolist() == [2.0]
    assert scale(Rewards.of([1.0]), torch.tensor([4.0])).tolist() == [8.0]


def test_it_keeps_its_name_and_documentation():
    assert (scale.__name__, scale.__doc__) == ("scale", "Doc.")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(2), r"'x' takes Float\[batch seq\], got float32\[2\]"),
        (torch.ones(2, 3).long(), r"'x' takes Float\[batch seq\], got int64\[2, 3\]"),
        (torch.ones(3, 3), r"'group' takes Int\[batch\], got int64\[2\], but batch is 3 elsewhere"),
        ([1.0], r"'x' takes Float\[batch seq\], got list"),
    ],
)
def test_what_does_not_fit_names_port_and_both_types(x, message):
    with pytest.raises(TypeError, match=message):
        group_total(x, torch.tensor([0, 1]))


def test_a_result_of_the_wrong_shape_is_an_error():
    @node
    def wrong(x: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        return x[:-1]

    with pytest.raises(TypeError, match=r"wrong returns Float\[batch\], got float32\[1\]"):
        wrong(torch.ones(2))


def test_an_unannotated_parameter_is_an_error_when_the_node_is_defined():
    with pytest.raises(GraphError, match=r"test_node.py:\d+: parameter 'x' of bare has no anno"):

        @node
        def bare(x) -> Float[Tensor, " batch"]:
            return x


@pytest.mark.parametrize("result", [int, Float[Tensor, " batch"] | Int[Tensor, " batch"]])
def test_a_result_that_cannot_travel_is_an_error(result):
    def odd(x: Float[Tensor, " batch"]):
        return x

    odd.__annotations__["return"] = result
    with pytest.raises(GraphError, match="odd must say what it returns"):
        node(odd)


def test_no_return_annotation_is_an_error():
    with pytest.raises(GraphError, match="it says nothing"):

        @node
        def silent(x: Float[Tensor, " batch"]):
            return x


def test_two_models_are_an_error():
    with pytest.raises(GraphError, match=r"both asks for 2 models \(a, b\)"):

        @node
        def both(a: Sampler, b: Scorer) -> Float[Tensor, " batch"]:
            raise NotImplementedError
