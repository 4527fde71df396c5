import math

import pytest
import torch
from cases import Case, cases, close, floats
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from rlgraph.nodes import estimate_kl, kl_in_reward, kl_in_score, token_kl
from rlgraph.records import Rewards


@given(floats(-9, 2), st.sampled_from(["k1", "k2", "k3"]))
def test_estimators_equal_their_formulas(r: float, estimator: str) -> None:
    expected = {"k1": r, "k2": r * r / 2, "k3": math.exp(-r) - 1 + r}[estimator]
    got = estimate_kl(tensor([r], dtype=torch.float64), estimator, clamp_output=math.inf).item()
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(st.integers(-20, 20).map(lambda e: math.copysign(10.0 ** abs(e), e)))
def test_k2_and_k3_are_never_negative(r: float) -> None:
    assert estimate_kl(tensor([r]), "k2", clamp_input=1e3).item() >= 0
    assert estimate_kl(tensor([r]), "k3").item() >= 0


def test_means_over_samples_reach_the_true_kl() -> None:
    p = tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = tensor([0.2, 0.2, 0.6], dtype=torch.float64)
    r = (p / q).log()
    true = (p * r).sum()
    # Weighted by p itself in place of samples: exact expectations.
    torch.testing.assert_close((p * estimate_kl(r, "k1")).sum(), true)
    torch.testing.assert_close((p * estimate_kl(r, "k3")).sum(), true)


def test_small_ratios_keep_their_digits() -> None:
    assert estimate_kl(tensor([1e-4]), "k3").item() == pytest.approx(5e-9, rel=1e-2)


def test_default_clamps_are_for_k3_only() -> None:
    far = tensor([-1000.0, 1000.0])
    assert estimate_kl(far, "k1").tolist() == [-1000, 1000]
    assert estimate_kl(far, "k2").tolist() == [500_000, 500_000]
    # exp(20) - 1 - 20 and exp(-20) - 1 + 20, cut off at 10.
    assert estimate_kl(far, "k3").tolist() == [10, 10]
    assert estimate_kl(far, "k3", clamp_output=math.inf)[1].item() == pytest.approx(19)
    assert estimate_kl(far, "k1", clamp_input=5.0).tolist() == [-5, 5]
    assert estimate_kl(far, "k1", clamp_output=7.0).tolist() == [-7, 7]


@given(cases())
def test_equal_policies_have_no_kl(case: Case) -> None:
    for estimator in ("k1", "k2", "k3"):
        assert not token_kl(case.first, case.first, case.mask, estimator=estimator).any()


@given(cases(), floats(0, 2))
def test_kl_in_reward_equals_plain_python(case: Case, coef: float) -> None:
    expected = torch.zeros(case.mask.shape, dtype=torch.float64)
    summed = []
    for i in range(len(case.group)):
        actions = case.mask[i].nonzero().flatten().tolist()
        summed.append(case.rewards.scores[i].item())
        if not case.rewards.valid[i]:
            continue
        for t in actions:
            expected[i, t] = -coef * case.first[i, t].item()
            summed[i] += expected[i, t].item()
        if actions:
            expected[i, actions[-1]] += case.rewards.scores[i].item()
    close(kl_in_reward(case.rewards, case.first, case.mask, kl_coef=coef), expected.float())
    shaped = kl_in_score(case.rewards, case.first, case.mask, kl_coef=coef)
    close(shaped.scores, tensor(summed))
    assert shaped.valid.equal(case.rewards.valid)


def test_the_coefficient_may_be_a_value_of_the_graph() -> None:
    mask = tensor([[False, True, True]])
    kl = tensor([[0.0, 0.5, 1.0]])
    shaped = kl_in_reward(Rewards.of([3.0]), kl, mask, kl_coef=tensor(0.5))
    assert shaped.tolist() == [[0, -0.25, 2.5]]
