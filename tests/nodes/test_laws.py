"""Laws that every node and loss obeys, whatever it computes."""

from collections.abc import Callable

import pytest
import torch
from cases import Case, cases, close
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rlgraph import nodes
from rlgraph.testing import widen

Function = Callable[[Case], Tensor]


def loss(function: Callable[..., Tensor], **settings: float) -> Function:
    """A policy loss with all that it can be given."""
    return lambda c: function(
        logprobs=c.new_logprobs,
        rollout=c.rollout,
        advantages=c.third,
        weights=c.second.abs(),
        reference_logprobs=c.reference,
        kl_coef=0.1,
        **settings,
    )


ROWWISE: dict[str, Function] = {
    "token_kl k1": lambda c: nodes.token_kl(c.first, c.second, c.mask, estimator="k1"),
    "token_kl k2": lambda c: nodes.token_kl(c.first, c.second, c.mask, estimator="k2"),
    "token_kl k3": lambda c: nodes.token_kl(c.first, c.second, c.mask, estimator="k3"),
    "gae": lambda c: nodes.gae(c.first, c.second, c.mask, gamma=0.9).advantages,
    "gae returns": lambda c: nodes.gae(c.first, c.second, c.mask, lam=0.5).returns,
    "discounted_returns": lambda c: nodes.discounted_returns(c.first, c.mask, gamma=0.9),
    "reward_at_end": lambda c: nodes.reward_at_end(c.rewards, c.mask),
    "kl_in_reward": lambda c: nodes.kl_in_reward(c.rewards, c.first, c.mask, kl_coef=0.3),
    "kl_in_score": lambda c: nodes.kl_in_score(c.rewards, c.first, c.mask, kl_coef=0.3).scores,
    "importance token": lambda c: nodes.importance_weights(c.first, c.second, c.mask),
    "importance sequence": lambda c: nodes.importance_weights(
        c.first, c.second, c.mask, level="sequence"
    ),
    "importance geometric": lambda c: nodes.importance_weights(
        c.first, c.second, c.mask, level="geometric", mode="mask", low=0.5
    ),
    "clip_rewards": lambda c: nodes.clip_rewards(c.rewards, low=-1, high=1).scores,
    "overlong_penalty": lambda c: (
        nodes.overlong_penalty(c.rewards, c.mask, max_length=6, buffer=4).scores
    ),
    "truncation_penalty": lambda c: (
        nodes.truncation_penalty(c.rewards, c.rollout.truncated, value=0.5).scores
    ),
    "combine_rewards": lambda c: nodes.combine_rewards(c.rewards, c.rewards).scores,
    "combine_advantages": lambda c: nodes.combine_advantages(c.first, c.second),
    "mask_rows": lambda c: nodes.mask_rows(c.rollout, c.rewards.valid).logprobs,
    "clipped_policy_loss": loss(nodes.clipped_policy_loss, dual_clip=3.0),
    "policy_gradient_loss": loss(nodes.policy_gradient_loss),
    "cispo_loss": loss(nodes.cispo_loss),
    "gspo_policy_loss": loss(nodes.gspo_policy_loss),
    "value_loss": lambda c: nodes.value_loss(c.first, c.rollout, c.second, c.third),
    "entropy bonus": lambda c: nodes.with_entropy_bonus(nodes.clipped_policy_loss)(
        logprobs=c.new_logprobs,
        entropy=c.second.abs(),
        rollout=c.rollout,
        advantages=c.third,
        entropy_coef=0.1,
    ),
}
GROUPWISE: dict[str, Function] = {
    "group_advantage": lambda c: nodes.group_advantage(c.rewards, c.group, c.mask),
    "group_advantage unscaled": lambda c: nodes.group_advantage(
        c.rewards, c.group, c.mask, scale="none"
    ),
    "leave_one_out_advantage": lambda c: nodes.leave_one_out_advantage(c.rewards, c.group, c.mask),
    "mixed_groups": lambda c: nodes.mixed_groups(c.rewards, c.group).float(),
    "groups_in_range": lambda c: nodes.groups_in_range(
        c.rewards, c.group, low=0.0, high=1.0
    ).float(),
    "subtract_greedy": lambda c: (
        nodes.subtract_greedy(c.rewards, c.group, c.rewards, c.group).scores
    ),
}
WHOLE: dict[str, Function] = {
    "whiten": lambda c: nodes.whiten(c.first, c.mask),
    "whiten unshifted": lambda c: nodes.whiten(c.first, c.mask, shift_mean=False, unbiased=False),
    "subtract_running_mean": lambda c: (
        nodes.subtract_running_mean(nodes.RunningMean(), c.rewards).scores
    ),
    "normalize_rewards": lambda c: (
        nodes.normalize_rewards(nodes.RunningMoments(), c.rewards).scores
    ),
}


def each(*tables: dict[str, Function]) -> pytest.MarkDecorator:
    every = {name: function for table in tables for name, function in table.items()}
    return pytest.mark.parametrize("function", every.values(), ids=every.keys())


@each(ROWWISE, GROUPWISE, WHOLE)
@given(case=cases())
def test_is_finite_and_zero_where_masked(function: Function, case: Case) -> None:
    result = function(case)
    assert result.isfinite().all()
    if result.dim() == 2:
        assert result.shape == case.mask.shape
        assert not result[~case.mask].any()
    else:
        assert result.shape == case.group.shape


@each(ROWWISE, GROUPWISE, WHOLE)
@given(case=cases(), data=st.data())
def test_permuting_rows_permutes_the_result(
    function: Function, case: Case, data: st.DataObject
) -> None:
    order = torch.tensor(data.draw(st.permutations(range(len(case.rollout)))))
    close(function(case.take(order)), function(case)[order])


@each(ROWWISE, GROUPWISE, WHOLE)
@given(case=cases(), extra=st.integers(1, 3))
def test_more_padding_changes_nothing(function: Function, case: Case, extra: int) -> None:
    expected = function(case)
    if expected.dim() == 2:
        expected = widen(expected, extra)
    close(function(case.widen(extra)), expected)


@each(ROWWISE)
@given(case=cases(), data=st.data())
def test_rows_stand_for_themselves(function: Function, case: Case, data: st.DataObject) -> None:
    count = len(case.rollout)
    index = torch.tensor(data.draw(st.lists(st.integers(0, count - 1), min_size=1)))
    close(function(case.take(index)), function(case)[index])


@each(GROUPWISE)
@given(case=cases(), data=st.data())
def test_groups_stand_for_themselves(function: Function, case: Case, data: st.DataObject) -> None:
    ids = case.group.unique().tolist()
    chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    index = torch.isin(case.group, torch.tensor(chosen)).nonzero().flatten()
    close(function(case.take(index)), function(case)[index])


@each(GROUPWISE)
@given(case=cases(), data=st.data())
def test_group_ids_are_only_names(function: Function, case: Case, data: st.DataObject) -> None:
    ids, row = case.group.unique(return_inverse=True)
    names = data.draw(
        st.lists(st.integers(), min_size=len(ids), max_size=len(ids), unique=True).filter(
            lambda names: all(abs(name) < 2**62 for name in names)
        )
    )
    renamed = case.rollout.replace(group=torch.tensor(names)[row])
    close(
        function(Case(renamed, case.rewards, case.first, case.second, case.third)), function(case)
    )


@each(ROWWISE, GROUPWISE, WHOLE)
@given(case=cases())
def test_no_rows_give_no_rows(function: Function, case: Case) -> None:
    assert len(function(case.take(torch.arange(0)))) == 0
