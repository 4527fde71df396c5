import math
import statistics

import pytest
import torch
from cases import floats
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from rlgraph.metrics import collect
from rlgraph.nodes import (
    AdaptiveKL,
    RunningMean,
    RunningMoments,
    adaptive_kl_coef,
    normalize_rewards,
    subtract_running_mean,
)
from rlgraph.records import Rewards

numbers = floats(-100, 100, width=32)
batches = st.lists(st.lists(numbers, max_size=5), min_size=1, max_size=5)


@given(batches)
def test_moments_equal_those_of_all_values_at_once(values: list[list[float]]) -> None:
    moments = RunningMoments()
    for batch in values:
        normalize_rewards(moments, Rewards.of(batch))
    seen = [x for batch in values for x in batch]
    assert moments.count == len(seen)
    assert moments.mean == pytest.approx(statistics.fmean(seen) if seen else 0, abs=1e-9)
    expected = statistics.stdev(seen) if len(seen) > 1 else 0
    assert moments.std == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(numbers, min_size=1, max_size=6), floats(0, 0.99))
def test_running_mean_is_the_weighted_mean_of_the_past(means: list[float], momentum: float) -> None:
    running = RunningMean(momentum)
    for mean in means:
        running.update(mean)
    weights = [momentum**age for age in reversed(range(len(means)))]
    expected = sum(w * m for w, m in zip(weights, means, strict=True)) / sum(weights)
    assert running.value == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_batch_is_judged_by_earlier_ones_only() -> None:
    baseline = RunningMean(momentum=0.5)
    first = subtract_running_mean(baseline, Rewards.of([2.0, 4.0]))
    assert first.scores.tolist() == [2, 4]
    second = subtract_running_mean(baseline, Rewards.of([3.0, math.nan, 5.0]))
    assert second.scores.tolist() == [0, 0, 2]
    assert baseline.value == pytest.approx((0.25 * 3 + 0.5 * 4) / 0.75)


def test_a_batch_without_a_valid_reward_teaches_nothing() -> None:
    baseline, moments = RunningMean(), RunningMoments()
    failed = Rewards.of([math.nan, math.nan])
    assert subtract_running_mean(baseline, failed).scores.tolist() == [0, 0]
    assert normalize_rewards(moments, failed).scores.tolist() == [0, 0]
    assert (baseline.value, moments.count) == (0, 0)


def test_normalised_by_hand() -> None:
    moments = RunningMoments()
    assert normalize_rewards(moments, Rewards.of([5.0])).scores.tolist() == [0]
    # Now 5, 1 and 3 are known: mean 3, sample std 2.
    assert normalize_rewards(moments, Rewards.of([1.0, 3.0])).scores.tolist() == pytest.approx(
        [-1, 0]
    )
    scaled = normalize_rewards(RunningMoments(), Rewards.of([1.0, 3.0]), shift_mean=False)
    assert scaled.scores.tolist() == pytest.approx([1 / math.sqrt(2), 3 / math.sqrt(2)])


@pytest.mark.parametrize("momentum", [-0.1, 1.0])
def test_momentum_must_leave_room_for_the_present(momentum: float) -> None:
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        RunningMean(momentum)


def observe(controller: AdaptiveKL, kl: float, per: str = "token") -> float:
    mask = tensor([[False, True, True], [False, True, True]])
    return float(adaptive_kl_coef(controller, kl * mask, mask, per=per))


def test_the_coefficient_follows_the_kl() -> None:
    controller = AdaptiveKL(initial=0.2, target=1.0, horizon=10)
    # The batch at hand still gets the old coefficient; two rows a step.
    assert observe(controller, 9.0) == pytest.approx(0.2)
    assert controller.coef == pytest.approx(0.2 * (1 + 0.2 * 2 / 10))
    assert observe(controller, 0.9) == pytest.approx(0.2 * 1.04)
    assert controller.coef == pytest.approx(0.2 * 1.04 * (1 - 0.1 * 2 / 10))


def test_on_target_nothing_moves() -> None:
    controller = AdaptiveKL(initial=0.2, target=1.0, horizon=10)
    observe(controller, 1.0)
    assert controller.coef == pytest.approx(0.2)
    # Two action tokens a row: per sequence that is twice as much.
    observe(controller, 0.5, per="sequence")
    assert controller.coef == pytest.approx(0.2)


def test_controller_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        AdaptiveKL(initial=0.0, target=1.0)
    with pytest.raises(ValueError, match="a batch of 50 rows is too large for a KL horizon of 10"):
        AdaptiveKL(initial=0.1, target=1.0, horizon=10).update(0.0, 50)


def test_no_action_token_is_no_observation() -> None:
    controller = AdaptiveKL(initial=0.2, target=1.0, horizon=10)
    nothing = torch.zeros(1, 2)
    assert adaptive_kl_coef(controller, nothing, nothing.bool()) == pytest.approx(0.2)
    assert controller.coef == 0.2


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (RunningMean, lambda state: state.update(3.0)),
        (RunningMoments, lambda state: state.update(2, 1.0, 4.0)),
        (lambda: AdaptiveKL(0.1, 1.0), lambda state: state.update(2.0, 8)),
    ],
)
def test_states_come_back_from_a_checkpoint(make, change) -> None:
    state, restored = make(), make()
    change(state)
    restored.load_state_dict(state.state_dict())
    change(state)
    change(restored)
    assert restored.state_dict() == state.state_dict()


def test_what_is_subtracted_is_logged() -> None:
    baseline = RunningMean()
    subtract_running_mean(baseline, Rewards.of([2.0]))
    with collect() as metrics:
        subtract_running_mean(baseline, Rewards.of([7.0]))
    assert metrics["reward/baseline"].value == pytest.approx(2)
