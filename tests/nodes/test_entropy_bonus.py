import pytest
import torch
from cases import Case, cases, close
from hypothesis import given
from torch import Tensor

from rlgraph.metrics import collect
from rlgraph.nodes import (
    clipped_policy_loss,
    gspo_policy_loss,
    update,
    value_loss,
    with_entropy_bonus,
)
from rlgraph.ports import LossPorts
from rlgraph.testing import FakePolicy, fake_prompts


@given(cases())
def test_the_bonus_is_subtracted_from_each_term(case: Case) -> None:
    entropy = case.second.abs()
    for loss in (clipped_policy_loss, gspo_policy_loss):
        plain = loss(case.new_logprobs, case.rollout, case.third)
        with collect() as metrics:
            terms = with_entropy_bonus(loss)(
                logprobs=case.new_logprobs,
                entropy=entropy,
                rollout=case.rollout,
                advantages=case.third,
                entropy_coef=0.5,
            )
        mean = entropy.sum(-1) / case.mask.sum(-1).clamp(min=1)
        close(terms, plain - 0.5 * (entropy if plain.dim() == 2 else mean))
        assert "policy/entropy" in metrics


def test_only_the_wrapped_loss_asks_for_entropy() -> None:
    assert LossPorts.of(clipped_policy_loss).outputs == ("logprobs",)
    ports = LossPorts.of(with_entropy_bonus(clipped_policy_loss))
    assert ports.outputs == ("logprobs", "entropy")
    assert ports.rows == "rollout"
    assert ports.inputs["entropy_coef"].required
    assert str(ports.inputs["advantages"]) == "Float[batch seq]"


def test_the_bonus_alone_makes_a_policy_less_certain() -> None:
    policy = FakePolicy(vocabulary=4)
    with torch.no_grad():
        policy.table[:, 3] = 2.0
    rollout = policy.generate(fake_prompts(8, vocabulary=4), samples=4)
    before = policy.outputs(rollout)["entropy"].detach()
    loss, nothing = with_entropy_bonus(clipped_policy_loss), torch.zeros_like(rollout.logprobs)
    update(policy, loss, rollout, advantages=nothing, entropy_coef=1.0, epochs=10)
    after = policy.outputs(rollout)["entropy"].detach()
    assert (after > before)[rollout.action_mask].all()


def test_what_cannot_have_a_bonus_says_so() -> None:
    with pytest.raises(TypeError, match="has an entropy already"):
        with_entropy_bonus(with_entropy_bonus(clipped_policy_loss))

    def rowless(values: Tensor) -> Tensor:
        return values

    with pytest.raises(TypeError, match="rowless has no parameter that takes a Rollout"):
        with_entropy_bonus(rowless)
    assert with_entropy_bonus(value_loss).__name__ == "value_loss_with_entropy_bonus"
