import math

import pytest
import torch
from torch import tensor

from rlgraph.nodes import (
    clip_rewards,
    combine_advantages,
    combine_rewards,
    overlong_penalty,
    truncation_penalty,
)
from rlgraph.records import Rewards

FAILED = Rewards.of([math.nan, 4.0])


def masks(*lengths: int) -> torch.Tensor:
    return torch.arange(max(lengths)) < tensor(lengths)[:, None]


def test_overlong_penalty_grows_over_the_buffer() -> None:
    # A limit of 10 with a buffer of 4: free up to 6, then a quarter a token.
    rewards = Rewards.of([1.0] * 6)
    shaped = overlong_penalty(
        rewards, masks(0, 6, 7, 9, 10, 12), max_length=10, buffer=4, factor=2.0
    )
    assert shaped.scores.tolist() == [1, 1, 0.5, -0.5, -1, -1]


@pytest.mark.parametrize("buffer", [0, 11])
def test_overlong_buffer_must_fit(buffer: int) -> None:
    with pytest.raises(ValueError, match=r"buffer is \d+; it must be between 1 and max_length 10"):
        overlong_penalty(Rewards.of([1.0]), masks(3), max_length=10, buffer=buffer)


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [("subtract", 0.5, 1.5), ("scale", 0.5, 1.0), ("replace", -1.0, -1.0)],
)
def test_truncation_penalty(mode: str, value: float, expected: float) -> None:
    shaped = truncation_penalty(
        Rewards.of([2.0, 2.0, math.nan]), tensor([True, False, True]), value=value, mode=mode
    )
    assert shaped.scores.tolist() == [expected, 2, 0]
    assert shaped.valid.tolist() == [True, True, False]


def test_clip_range() -> None:
    assert clip_rewards(Rewards.of([-5.0, 0.5, 9.0]), low=0.0, high=1.0).scores.tolist() == [
        0,
        0.5,
        1,
    ]
    with pytest.raises(ValueError, match="low 1 exceeds high 0"):
        clip_rewards(FAILED, low=1.0, high=0.0)


def test_a_failed_score_is_never_shaped_into_one() -> None:
    shaped = [
        clip_rewards(FAILED, low=1.0, high=2.0),
        overlong_penalty(FAILED, masks(9, 9), max_length=9, buffer=2),
        truncation_penalty(FAILED, tensor([True, True]), value=-1.0, mode="replace"),
        combine_rewards(FAILED, Rewards.of([3.0, 3.0])),
    ]
    for rewards in shaped:
        assert rewards.valid.tolist() == [False, True]
        assert rewards.scores[0] == 0


def test_sums_are_weighted() -> None:
    weights = {"first_weight": 2.0, "second_weight": 0.5}
    assert combine_rewards(Rewards.of([1.0]), Rewards.of([10.0]), **weights).scores.tolist() == [7]
    assert combine_advantages(tensor([[1.0]]), tensor([[10.0]]), **weights).tolist() == [[7]]


def test_shaping_leaves_its_input_alone() -> None:
    rewards = Rewards.of([5.0])
    clip_rewards(rewards, low=0.0, high=1.0)
    assert rewards.scores.tolist() == [5]
