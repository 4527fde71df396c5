import math

import torch
from cases import Case, cases
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Int
from torch import Tensor, tensor

from rlgraph import Split, node
from rlgraph.metrics import collect
from rlgraph.nodes import (
    both,
    clipped_policy_loss,
    group_advantage,
    groups_in_range,
    mask_rows,
    mixed_groups,
    select,
    select_rewards,
)
from rlgraph.records import Rewards
from rlgraph.testing import check_rollout


def test_groups_by_hand() -> None:
    scores = [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, math.nan, math.nan]
    group = tensor([1, 1, 2, 2, 3, 3, 4, 4, 5])
    rewards = Rewards.of(scores)
    mixed = [False, False, True, True, False, False, False, False, False]
    assert mixed_groups(rewards, group).tolist() == mixed
    assert groups_in_range(rewards, group, low=0.0, high=1.0).tolist() == mixed
    below = groups_in_range(rewards, group, low=-1.0, high=0.5)
    # Group 5 has no valid reward, so no mean, and is never kept.
    assert below.tolist() == [False, False, False, False, True, True, False, False, False]


@given(cases())
def test_groups_stay_whole(case: Case) -> None:
    for keep in (
        mixed_groups(case.rewards, case.group),
        groups_in_range(case.rewards, case.group, low=0.0, high=1.0),
    ):
        for group in case.group.unique():
            assert len(keep[case.group == group].unique()) == 1


@given(cases())
def test_dropped_groups_had_no_advantage(case: Case) -> None:
    keep = mixed_groups(case.rewards, case.group)
    advantages = group_advantage(case.rewards, case.group, case.mask)
    assert not advantages[~keep].any()


@given(cases(), st.data())
def test_selected_rows_stay_in_line(case: Case, data: st.DataObject) -> None:
    count = len(case.group)
    keep = tensor(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    rollout, rewards = select(case.rollout, keep), select_rewards(case.rewards, keep)
    check_rollout(rollout)
    assert len(rollout) == len(rewards) == int(keep.sum())
    assert rollout.tokens.equal(case.rollout.tokens[keep])
    assert rewards.scores.equal(case.rewards.scores[keep])
    kept = [text for text, wanted in zip(case.rollout.response, keep, strict=True) if wanted]
    assert list(rollout.response) == kept


@given(cases(), st.data())
def test_masked_rows_have_no_say(case: Case, data: st.DataObject) -> None:
    count = len(case.group)
    keep = tensor(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    masked = mask_rows(case.rollout, keep)
    check_rollout(masked)
    assert masked.action_mask[keep].equal(case.mask[keep])
    terms = clipped_policy_loss(case.new_logprobs, masked, case.third)
    assert not terms[~keep].any()


def test_dropped_rows_are_counted() -> None:
    keep = tensor([True, False, False])
    with collect() as metrics:
        select_rewards(Rewards.of([1.0, 2.0, 3.0]), both(keep, ~keep))
        mixed_groups(Rewards.of([1.0, 2.0, 3.0]), tensor([1, 1, 2]))
    assert math.isclose(metrics["filter/kept"].value, 2 / 3)


def test_another_filter_is_one_node() -> None:
    @node(split=Split.GROUPS)
    def large_groups(group: Int[Tensor, " batch"], *, least: int) -> Bool[Tensor, " batch"]:
        _, row, count = group.unique(return_inverse=True, return_counts=True)
        return count[row] >= least

    keep = large_groups(tensor([4, 9, 4]), least=2)
    assert select_rewards(Rewards.of([1.0, 2.0, 3.0]), keep).scores.tolist() == [1, 3]
    assert torch.equal(keep, tensor([True, False, True]))
