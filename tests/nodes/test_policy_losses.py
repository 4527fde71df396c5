"""Values and gradients of the policy losses, against formulas in plain Python."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import Case, cases, close
from hypothesis import given, settings
from torch import Tensor, tensor

from rlgraph.metrics import collect
from rlgraph.nodes import (
    cispo_loss,
    clipped_policy_loss,
    gspo_policy_loss,
    policy_gradient_loss,
)
from rlgraph.records import Rollout

Loss = Callable[..., Tensor]
LOSSES = [clipped_policy_loss, policy_gradient_loss, cispo_loss, gspo_policy_loss]


def row(*old: float, masked: int = 1) -> Rollout:
    """One row: ``masked`` prompt tokens, then an action for each of the given log-probabilities."""
    width = masked + len(old)
    acted = torch.arange(width)[None] >= masked
    return Rollout(
        tokens=torch.ones(1, width, dtype=torch.long),
        attention_mask=torch.ones(1, width, dtype=torch.bool),
        action_mask=acted,
        logprobs=tensor([[0.0] * masked + list(old)], dtype=torch.float64),
        group=tensor([0]),
        truncated=tensor([False]),
        policy_version=tensor([0]),
        response=[""],
        columns=[{}],
        batch_size=[1],
    )


def in_double(case: Case) -> dict[str, Any]:
    """What a loss is given, in float64, so that finite differences mean something."""
    return {
        "rollout": case.rollout.replace(logprobs=case.rollout.logprobs.double()),
        "advantages": case.third.double(),
        "weights": (case.second.abs() + 0.1).where(case.mask, 0.0).double(),
        "reference_logprobs": case.reference.double(),
        "kl_coef": 0.3,
    }


def gradient(loss: Loss, logprobs: Tensor, **inputs: Any) -> Tensor:
    leaf = logprobs.clone().requires_grad_()
    (result,) = torch.autograd.grad(loss(logprobs=leaf, **inputs).sum(), leaf)
    return result


def finite_differences(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    step = 1e-6
    result = torch.zeros_like(at)
    for index in at.isfinite().nonzero().tolist():
        shift = torch.zeros_like(at)
        shift[tuple(index)] = step
        result[tuple(index)] = (function(at + shift) - function(at - shift)) / (2 * step)
    return result


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("loss", [clipped_policy_loss, policy_gradient_loss, gspo_policy_loss])
@settings(max_examples=20)
@given(case=cases())
def test_gradient_equals_finite_differences(loss: Loss, estimator: str, case: Case) -> None:
    inputs = {**in_double(case), "kl_estimator": estimator}
    if loss is clipped_policy_loss:
        inputs |= {"dual_clip": 1.5, "clip_low": 0.1, "clip_high": 0.3}
    at = case.new_logprobs.double()
    expected = finite_differences(lambda x: loss(logprobs=x, **inputs).sum(), at)
    torch.testing.assert_close(gradient(loss, at, **inputs), expected, rtol=1e-4, atol=1e-6)


@settings(max_examples=20)
@given(case=cases())
def test_cispo_gradient_has_a_frozen_weight(case: Case) -> None:
    inputs = in_double(case)
    at = case.new_logprobs.double()
    frozen = (at - inputs["rollout"].logprobs).exp().clamp(0.0, 5.0)

    def surrogate(x: Tensor) -> Tensor:
        r = x - inputs["reference_logprobs"]
        policy = -frozen * inputs["advantages"] * x * inputs["weights"]
        return (policy + 0.3 * ((-r).exp() - 1 + r)).where(case.mask, 0.0).sum()

    expected = finite_differences(surrogate, at)
    torch.testing.assert_close(gradient(cispo_loss, at, **inputs), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@given(case=cases())
def test_on_policy_the_gradient_is_the_vanilla_policy_gradient(loss: Loss, case: Case) -> None:
    """At the first step after sampling, d/dlogp of every loss is -A."""
    advantages = case.third
    expected = -advantages
    if loss is gspo_policy_loss:
        # Its A is one a row, and the row's log-probability is the mean of its tokens'.
        count = case.mask.sum(-1, keepdim=True).clamp(min=1)
        advantages = (advantages.sum(-1, keepdim=True) / count).expand_as(advantages)
        advantages = advantages.where(case.mask, 0.0)
        expected = -advantages / count
    with collect() as metrics:
        found = gradient(loss, case.rollout.logprobs, rollout=case.rollout, advantages=advantages)
    close(found, expected)
    if case.mask.any():
        assert metrics["policy/ratio_max"].value == metrics["policy/ratio_min"].value == 1
        assert metrics["policy/approx_kl"].value == 0


def slow_clipped(case: Case, low: float, high: float, dual: float | None) -> Tensor:
    result = torch.zeros(case.mask.shape, dtype=torch.float64)
    for i, t in case.mask.nonzero().tolist():
        new, old = case.new_logprobs[i, t].item(), case.rollout.logprobs[i, t].item()
        advantage = case.third[i, t].item()
        ratio = math.exp(max(min(new - old, 20.0), -20.0))
        term = max(-ratio * advantage, -min(max(ratio, 1 - low), 1 + high) * advantage)
        if dual is not None and advantage < 0:
            term = min(term, -dual * advantage)
        r = new - case.reference[i, t].item()
        kl = min(math.exp(-r) - 1 + r, 10.0)
        result[i, t] = term * case.second[i, t].abs().item() + 0.1 * kl
    return result.float()


@pytest.mark.parametrize("dual", [None, 1.2])
@given(case=cases())
def test_clipped_loss_equals_plain_python(dual: float | None, case: Case) -> None:
    # The case's policy only ever gives less: turn it around to reach the upper clip as well.
    swapped = case.rollout.replace(logprobs=case.new_logprobs)
    for rollout, new in ((case.rollout, case.new_logprobs), (swapped, case.rollout.logprobs)):
        turned = TurnedCase(rollout, case.rewards, case.first, case.second, case.third)
        turned.__dict__["new"] = new
        actual = clipped_policy_loss(
            new,
            rollout,
            case.third,
            weights=case.second.abs(),
            reference_logprobs=turned.reference,
            kl_coef=0.1,
            clip_low=0.1,
            clip_high=0.4,
            dual_clip=dual,
        )
        close(actual, slow_clipped(turned, 0.1, 0.4, dual))


class TurnedCase(Case):
    @property
    def new_logprobs(self) -> Tensor:
        return self.__dict__["new"]


def test_clipping_by_hand() -> None:
    # Ratios 1/2, 3/2, 1/2, 3/2, with advantages +, +, -, -; clip range [0.8, 1.2].
    half, more = math.log(0.5), math.log(1.5)
    rollout = row(-1.0, -1.0, -1.0, -1.0)
    new = rollout.logprobs + tensor([[0.0, half, more, half, more]])
    advantages = tensor([[0.0, 2.0, 2.0, -2.0, -2.0]])
    with collect() as metrics:
        terms = clipped_policy_loss(new, rollout, advantages)
    assert terms[0].tolist() == pytest.approx([0, -1, -2.4, 1.6, 3])
    assert metrics["policy/clip_high"].value == 0.25
    assert metrics["policy/clip_low"].value == 0.25
    assert metrics["policy/ratio_max"].value == pytest.approx(1.5)
    assert metrics["policy/ratio_min"].value == pytest.approx(0.5)


def test_clip_higher_lets_good_tokens_grow_further() -> None:
    rollout = row(-1.0)
    new, good = rollout.logprobs + tensor([[0.0, math.log(1.25)]]), tensor([[0.0, 1.0]])
    assert gradient(clipped_policy_loss, new, rollout=rollout, advantages=good)[0, 1] == 0
    higher = gradient(clipped_policy_loss, new, rollout=rollout, advantages=good, clip_high=0.28)
    assert higher[0, 1] == pytest.approx(-1.25)


def test_dual_clip_bounds_the_loss_of_bad_tokens() -> None:
    rollout = row(-5.0, -5.0)
    new = rollout.logprobs + tensor([[0.0, math.log(10.0), math.log(2.0)]])
    with collect() as metrics:
        terms = clipped_policy_loss(new, rollout, tensor([[0.0, -1.0, -1.0]]), dual_clip=3.0)
    assert terms[0].tolist() == pytest.approx([0, 3, 2])
    assert metrics["policy/clip_dual"].value == 0.5
    with pytest.raises(ValueError, match="dual_clip is 1; it must be above 1"):
        clipped_policy_loss(new, rollout, new, dual_clip=1.0)


def test_a_ratio_never_overflows() -> None:
    rollout = row(-1000.0, 0.0)
    new = tensor([[0.0, 0.0, -1000.0]], dtype=torch.float64)
    for loss in LOSSES:
        terms = loss(new, rollout, tensor([[0.0, -1.0, -1.0]]))
        assert terms.isfinite().all()
    terms = clipped_policy_loss(new, rollout, tensor([[0.0, -1.0, -1.0]]))
    assert terms[0, 1].item() == pytest.approx(math.exp(20))


def test_the_trainers_own_old_logprobs_replace_the_samplers() -> None:
    rollout = row(-2.0)
    old, advantages = tensor([[0.0, -1.0]]), tensor([[0.0, 1.0]])
    with collect() as metrics:
        terms = clipped_policy_loss(old, rollout, advantages, old_logprobs=old)
    assert terms[0, 1] == -1
    # The gap between the two is the sampler's mismatch, and is logged with its tail.
    assert metrics["mismatch/mean"].value == metrics["mismatch/max"].value == 1
    assert metrics["mismatch/over_0.1"].value == 1


def test_sequence_ratio_by_hand() -> None:
    # Log-ratios 0.3 and -0.1: their mean is 0.1 for the row, whatever single tokens do.
    rollout = row(-1.0, -1.0)
    new = rollout.logprobs + tensor([[0.0, 0.3, -0.1]])
    free = gspo_policy_loss(new, rollout, tensor([[0.0, 2.0, 2.0]]), clip_low=0.5, clip_high=0.5)
    assert free.tolist() == pytest.approx([-2 * math.exp(0.1)])
    clipped = gspo_policy_loss(new, rollout, tensor([[0.0, 2.0, 2.0]]))
    assert clipped.tolist() == pytest.approx([-2 * 1.0004])


def test_cispo_keeps_a_gradient_beyond_the_clip() -> None:
    rollout = row(-5.0)
    new, good = rollout.logprobs + tensor([[0.0, math.log(100.0)]]), tensor([[0.0, 1.0]])
    found = gradient(cispo_loss, new, rollout=rollout, advantages=good, clip_high=0.5)
    assert found[0, 1] == pytest.approx(-1.5)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_coefficient_without_reference_is_an_error(loss: Loss) -> None:
    rollout = row(-1.0)
    with pytest.raises(ValueError, match="wire a logprobs node"):
        loss(rollout.logprobs, rollout, rollout.logprobs, kl_coef=0.1)


@pytest.mark.parametrize("loss", LOSSES)
@given(case=cases())
def test_kl_is_added_beside_the_policy_term(loss: Loss, case: Case) -> None:
    given_ = {"rollout": case.rollout, "advantages": case.third}
    without = loss(case.new_logprobs, **given_)
    with_kl = loss(
        case.new_logprobs,
        **given_,
        reference_logprobs=case.reference,
        kl_coef=tensor(0.5),
        kl_estimator="k2",
    )
    kl = (case.new_logprobs - case.reference) ** 2 / 2
    if without.dim() == 1:
        kl = kl.sum(-1) / case.mask.sum(-1).clamp(min=1)
    close(with_kl, without + 0.5 * kl)
