import pytest
import torch
from cases import Case, cases, close, floats
from hypothesis import given
from torch import Tensor, tensor

from rlgraph.metrics import collect
from rlgraph.nodes import discounted_returns, gae, reward_at_end
from rlgraph.records import Rewards

unit = floats(0, 1)


def slow_gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Backwards over all positions; masked ones carry what is there."""
    advantages = torch.zeros(mask.shape, dtype=torch.float64)
    returns = torch.zeros(mask.shape, dtype=torch.float64)
    for i in range(len(mask)):
        running, next_value = 0.0, 0.0
        for t in reversed(range(mask.shape[1])):
            if not mask[i, t]:
                continue
            value = values[i, t].item()
            delta = rewards[i, t].item() + gamma * next_value - value
            running = delta + gamma * lam * running
            next_value = value
            advantages[i, t] = running
            returns[i, t] = running + value
    return advantages.float(), returns.float()


@given(cases(), unit, unit)
def test_gae_equals_plain_python(case: Case, gamma: float, lam: float) -> None:
    estimate = gae(case.first, case.second, case.mask, gamma=gamma, lam=lam)
    advantages, returns = slow_gae(case.first, case.second, case.mask, gamma, lam)
    close(estimate.advantages, advantages)
    close(estimate.returns, returns)


@given(cases(), unit)
def test_lam_one_is_return_minus_value(case: Case, gamma: float) -> None:
    estimate = gae(case.first, case.second, case.mask, gamma=gamma, lam=1.0)
    returns = discounted_returns(case.first, case.mask, gamma=gamma)
    close(estimate.returns, returns)
    close(estimate.advantages, returns - case.second)


@given(cases(), unit, unit)
def test_gae_is_linear(case: Case, gamma: float, lam: float) -> None:
    once = gae(case.first, case.second, case.mask, gamma=gamma, lam=lam)
    thrice = gae(3 * case.first, 3 * case.second, case.mask, gamma=gamma, lam=lam)
    close(thrice.advantages, 3 * once.advantages)


@given(cases(), unit, unit)
def test_what_lies_under_the_mask_is_not_read(case: Case, gamma: float, lam: float) -> None:
    junk = torch.full_like(case.first, 1e9).where(~case.mask, 0.0)
    clean = gae(case.first, case.second, case.mask, gamma=gamma, lam=lam)
    dirty = gae(case.first + junk, case.second - junk, case.mask, gamma=gamma, lam=lam)
    assert dirty.advantages.equal(clean.advantages)


def test_gae_by_hand_across_an_observation() -> None:
    # Action, observation, observation, action. With gamma 1 and lam 1/2:
    # last: delta = 1 - 0.5 = 0.5; first: delta = 0 + 0.5 - 0.25 = 0.25, plus 0.5 * 0.5.
    mask = tensor([[False, True, False, False, True, False]])
    rewards = tensor([[0.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
    values = tensor([[0.0, 0.25, 0.0, 0.0, 0.5, 0.0]])
    estimate = gae(rewards, values, mask, gamma=1.0, lam=0.5)
    assert estimate.advantages.tolist() == [[0, 0.5, 0, 0, 0.5, 0]]
    assert estimate.returns.tolist() == [[0, 0.75, 0, 0, 1.0, 0]]


def test_long_rows_stay_exact() -> None:
    length = 3000
    rewards = torch.zeros(1, length)
    rewards[0, -1] = 1.0
    mask = torch.ones(1, length, dtype=torch.bool)
    returns = discounted_returns(rewards, mask, gamma=0.999)
    expected = 0.999 ** torch.arange(length - 1, -1, -1, dtype=torch.float64)
    torch.testing.assert_close(returns[0], expected.float(), rtol=1e-5, atol=0)


def test_the_score_goes_to_the_last_action_token() -> None:
    mask = tensor([[False, True, True, False, True], [False] * 5, [False, True, *[False] * 3]])
    with collect() as metrics:
        placed = reward_at_end(Rewards.of([2.0, 3.0, float("nan")]), mask)
    assert placed.tolist() == [[0, 0, 0, 0, 2], [0] * 5, [0] * 5]
    assert metrics["reward/rows_without_actions"].value == 1


@pytest.mark.parametrize("width", [0, 1])
def test_rows_without_any_token(width: int) -> None:
    nothing, mask = torch.zeros(2, width), torch.zeros(2, width, dtype=torch.bool)
    assert gae(nothing, nothing, mask).advantages.shape == (2, width)
    assert discounted_returns(nothing, mask).shape == (2, width)
