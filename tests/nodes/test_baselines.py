import math
import statistics

import pytest
import torch
from cases import Case, cases, close, floats
from hypothesis import given
from torch import Tensor, tensor

from rlgraph.metrics import collect
from rlgraph.nodes import group_advantage, leave_one_out_advantage, subtract_greedy
from rlgraph.records import Rewards
from rlgraph.testing import FakePolicy, fake_prompts


def per_row(function, scores, group, **settings) -> list[float]:
    """The advantages of rows with one action token each."""
    mask = torch.ones(len(scores), 1, dtype=torch.bool)
    return function(Rewards.of(scores), tensor(group), mask, **settings)[:, 0].tolist()


def groups_of(case: Case) -> dict[int, list[float]]:
    """The valid scores of each group, by plain Python."""
    members: dict[int, list[float]] = {}
    rows = zip(case.group.tolist(), case.rewards.scores.tolist(), case.rewards.valid, strict=True)
    for group, score, valid in rows:
        members.setdefault(group, [])
        if valid:
            members[group].append(score)
    return members


def slow_group_advantage(case: Case, scale: bool) -> Tensor:
    result = torch.zeros(case.mask.shape, dtype=torch.float64)
    for i, group in enumerate(case.group.tolist()):
        scores = groups_of(case)[group]
        if not case.rewards.valid[i] or len(set(scores)) < 2:
            continue
        advantage = case.rewards.scores[i].item() - math.fsum(scores) / len(scores)
        if scale:
            advantage /= statistics.stdev(scores) + 1e-6
        result[i, case.mask[i]] = advantage
    return result.float()


def slow_leave_one_out(case: Case) -> Tensor:
    result = torch.zeros(case.mask.shape, dtype=torch.float64)
    for i, group in enumerate(case.group.tolist()):
        scores = groups_of(case)[group]
        if not case.rewards.valid[i] or len(scores) < 2:
            continue
        score = case.rewards.scores[i].item()
        result[i, case.mask[i]] = score - (math.fsum(scores) - score) / (len(scores) - 1)
    return result.float()


@given(cases())
def test_group_advantage_equals_plain_python(case: Case) -> None:
    for scale in ("std", "none"):
        actual = group_advantage(case.rewards, case.group, case.mask, scale=scale)
        close(actual, slow_group_advantage(case, scale == "std"))


@given(cases())
def test_leave_one_out_equals_plain_python(case: Case) -> None:
    actual = leave_one_out_advantage(case.rewards, case.group, case.mask)
    close(actual, slow_leave_one_out(case))


@given(cases(), floats(-50, 50), floats(0.5, 20))
def test_shift_and_scale(case: Case, shift: float, scale: float) -> None:
    """Rewards may be measured in any unit: GRPO's advantage ignores it, RLOO's keeps the scale."""
    valid = case.rewards.valid
    moved = case.rewards.replace(scores=(case.rewards.scores * scale + shift).where(valid, 0.0))
    # Whether tiny differences survive the float32 of the moved scores is not the law's concern.
    coarse = case.rewards.replace(scores=case.rewards.scores.round())
    moved = moved.replace(scores=(coarse.scores * scale + shift).where(valid, 0.0))
    for function, factor in ((group_advantage, 1.0), (leave_one_out_advantage, scale)):
        before = function(coarse, case.group, case.mask)
        after = function(moved, case.group, case.mask)
        torch.testing.assert_close(after, factor * before, rtol=1e-3, atol=1e-3)


@given(cases())
def test_a_groups_advantages_sum_to_zero(case: Case) -> None:
    mask = torch.ones(len(case.group), 1, dtype=torch.bool)
    for function in (group_advantage, leave_one_out_advantage):
        advantages = function(case.rewards, case.group, mask)[:, 0]
        for group in case.group.unique():
            total = advantages[case.group == group].double().sum()
            assert abs(float(total)) < 1e-4 * (1 + float(advantages.abs().max()))


def test_by_hand() -> None:
    # Group 7: rewards 0 and 2, mean 1, sample std sqrt(2). Group 3: 1, 4, 4, mean 3, std sqrt(3).
    scores, group = [0.0, 1.0, 2.0, 4.0, 4.0], [7, 3, 7, 3, 3]
    root2, root3 = math.sqrt(2), math.sqrt(3)
    assert per_row(group_advantage, scores, group, eps=0.0) == pytest.approx(
        [-1 / root2, -2 / root3, 1 / root2, 1 / root3, 1 / root3]
    )
    assert per_row(group_advantage, scores, group, scale="none") == [-1, -2, 1, 1, 1]
    assert per_row(leave_one_out_advantage, scores, group) == [-2, -3, 2, 1.5, 1.5]


@pytest.mark.parametrize("function", [group_advantage, leave_one_out_advantage])
def test_degenerate_groups_give_exactly_zero(function) -> None:
    # 0.1 has no exact binary form: a naive mean of three differs from it.
    assert per_row(function, [0.1, 0.1, 0.1], [1, 1, 1]) == [0, 0, 0]
    assert per_row(function, [5.0], [1]) == [0]
    assert per_row(function, [math.nan, math.inf], [1, 1]) == [0, 0]
    # Two rows, one of them invalid: the other has nothing to be compared with.
    assert per_row(function, [3.0, math.nan], [1, 1]) == [0, 0]


@pytest.mark.parametrize("function", [group_advantage, leave_one_out_advantage])
def test_invalid_rows_do_not_move_the_others(function) -> None:
    whole = per_row(function, [1.0, 4.0, math.nan, 2.0], [1, 1, 1, 1])
    without = per_row(function, [1.0, 4.0, 2.0], [1, 1, 1])
    assert whole == pytest.approx([*without[:2], 0.0, without[2]])


def test_a_large_common_reward_costs_no_digits() -> None:
    assert per_row(leave_one_out_advantage, [1e6, 1e6 + 1], [0, 0]) == [-1, 1]


def test_what_is_wrong_with_a_group_is_counted() -> None:
    with collect() as metrics:
        per_row(group_advantage, [1.0, 1.0, 0.0, 1.0, 2.0, math.nan], [1, 1, 2, 2, 3, 3])
    assert metrics["group/invalid_rows"].value == 1
    assert metrics["group/flat"].value == pytest.approx(4 / 6)
    assert metrics["group/single"].value == pytest.approx(2 / 6)


def test_greedy_baseline_is_found_by_group() -> None:
    # The greedy answer to prompt 3 could not be scored; prompt 4 has none.
    rewards, best = Rewards.of([5.0, 1.0, 2.0, 3.0, 7.0]), Rewards.of([2.0, 4.0, math.nan])
    greedy = FakePolicy().generate(fake_prompts(3), temperature=0.0)
    greedy = greedy.replace(group=tensor([2, 1, 3]))
    with collect() as metrics:
        shaped = subtract_greedy(rewards, tensor([1, 2, 1, 3, 4]), best, greedy)
    assert shaped.scores.tolist() == [1, -1, -2, 0, 0]
    assert shaped.valid.tolist() == [True, True, True, False, False]
    assert metrics["reward/without_greedy"].value == 2
