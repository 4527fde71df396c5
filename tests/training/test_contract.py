import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rlgraph.errors import EngineError
from rlgraph.records import Sequences
from rlgraph.training.contract import LossCall

ROWS = Sequences(
    tokens=torch.tensor([[1, 2, 3, 0], [4, 5, 0, 0], [6, 7, 8, 9]]),
    attention_mask=torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]]).bool(),
    action_mask=torch.tensor([[0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1]]).bool(),
    batch_size=[3],
)


def loss(
    logprobs: Float[Tensor, "batch seq"],
    rows: Sequences,
    advantages: Float[Tensor, "batch seq"] | Float[Tensor, " batch"],
    old: Float[Tensor, "batch seq"] | None = None,
    clip: float = 0.2,
) -> Float[Tensor, "batch seq"]:
    CALLS.append((rows, advantages, old, clip))
    return logprobs


CALLS: list[tuple] = []


def test_arguments_are_cut_along_rows_and_trimmed():
    inputs = {"advantages": torch.arange(3.0), "old": torch.arange(12.0).view(3, 4)}
    call = LossCall.of(loss, ROWS, inputs, "lm")
    given = torch.zeros(2, 3, requires_grad=True)
    assert call.terms({"logprobs": given}, torch.tensor([1, 0]), 3) is given
    rows, advantages, old, clip = CALLS.pop()
    assert rows.tokens.tolist() == [[4, 5, 0], [1, 2, 3]]
    assert advantages.tolist() == [1.0, 0.0]
    assert old.tolist() == [[4.0, 5.0, 6.0], [0.0, 1.0, 2.0]]
    assert clip == 0.2


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "loss loss needs advantages"),
        ({"advantages": torch.zeros(3), "clp": 1.0}, "no parameter clp"),
        ({"advantages": torch.zeros(4)}, "parameter advantages: expected"),
        ({"advantages": torch.zeros(3, 5)}, "parameter advantages: expected"),
        ({"advantages": torch.zeros(3), "clip": "high"}, "parameter clip: expected"),
    ],
)
def test_wrong_inputs_are_named(inputs, message):
    with pytest.raises(EngineError, match=message):
        LossCall.of(loss, ROWS, inputs, "lm")


def test_outputs_of_another_head_are_refused():
    with pytest.raises(EngineError, match="asks for logprobs; this model has a value head"):
        LossCall.of(loss, ROWS, {"advantages": torch.zeros(3)}, "value")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda given: given.mean(), r"loss bad must return terms.*returned \[\]"),
        (lambda given: given[:1], r"returned \[1, 3\]"),
        (lambda given: None, "returned NoneType"),
        (lambda given: given.detach(), "terms of loss bad do not depend on logprobs"),
    ],
)
def test_what_is_not_terms_is_refused(result, message):
    def bad(logprobs: Float[Tensor, "batch seq"]) -> Float[Tensor, "batch seq"]:
        return result(logprobs)

    call = LossCall.of(bad, ROWS, {}, "lm")
    with pytest.raises(EngineError, match=message):
        call.terms({"logprobs": torch.zeros(2, 3, requires_grad=True)}, torch.tensor([0, 1]), 3)
