"""Laws that every node and loss obeys, whatever it computes."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from cases import Case, cases, close
from hypothesis import given, note
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
        nodes.subtract_greedy(c.rewards, c.group, c.rewards, c.rollout).scores
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


def every(*tables: dict[str, Function]) -> Iterator[Function]:
    """Every function in turn; a failure says whose it is.

    They all share the drawn cases, since drawing one costs more than all of them.
    """
    for table in tables:
        for name, function in table.items():
            yield functools.partial(named, name, function)


def named(name: str, function: Function, case: Case) -> Tensor:
    note(f"now: {name}")
    return function(case)


@given(case=cases())
def test_is_finite_and_zero_where_masked(case: Case) -> None:
    for function in every(ROWWISE, GROUPWISE, WHOLE):
        result = function(case)
        assert result.isfinite().all()
        if result.dim() == 2:
            assert result.shape == case.mask.shape
            assert not result[~case.mask].any()
        else:
            assert result.shape == case.group.shape


@given(case=cases(), data=st.data())
def test_permuting_rows_permutes_the_result(case: Case, data: st.DataObject) -> None:
    order = torch.tensor(data.draw(st.permutations(range(len(case.rollout)))))
    permuted = case.take(order)
    for function in every(ROWWISE, GROUPWISE, WHOLE):
        close(function(permuted), function(case)[order])


@given(case=cases(), extra=st.integers(1, 3))
def test_more_padding_changes_nothing(case: Case, extra: int) -> None:
    wide = case.widen(extra)
    for function in every(ROWWISE, GROUPWISE, WHOLE):
        expected = function(case)
        close(function(wide), widen(expected, extra) if expected.dim() == 2 else expected)


@given(case=cases(), data=st.data())
def test_rows_stand_for_themselves(case: Case, data: st.DataObject) -> None:
    count = len(case.rollout)
    index = torch.tensor(data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=9)))
    part = case.take(index)
    for function in every(ROWWISE):
        close(function(part), function(case)[index])


@given(case=cases(), data=st.data())
def test_groups_stand_for_themselves(case: Case, data: st.DataObject) -> None:
    ids = case.group.unique().tolist()
    chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    index = torch.isin(case.group, torch.tensor(chosen)).nonzero().flatten()
    part = case.take(index)
    for function in every(GROUPWISE):
        close(function(part), function(case)[index])


@given(case=cases(), data=st.data())
def test_group_ids_are_only_names(case: Case, data: st.DataObject) -> None:
    ids, row = case.group.unique(return_inverse=True)
    name = st.integers(-(2**62), 2**62)
    names = data.draw(st.lists(name, min_size=len(ids), max_size=len(ids), unique=True))
    renamed = replace(case, rollout=case.rollout.replace(group=torch.tensor(names)[row]))
    for function in every(GROUPWISE):
        close(function(renamed), function(case))


@given(case=cases())
def test_no_rows_give_no_rows(case: Case) -> None:
    nothing = case.take(torch.arange(0))
    for function in every(ROWWISE, GROUPWISE, WHOLE):
        assert len(function(nothing)) == 0
