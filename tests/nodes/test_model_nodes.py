"""The nodes that need a model, with fakes; and whole algorithms made of nodes."""

import math
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from rlgraph import Graph, GraphError, node
from rlgraph.engines.protocols import PromptStream, Rewarder, Trainer, ValueModel
from rlgraph.metrics import collect
from rlgraph.models import Handle, Policy, Resident, Stateful
from rlgraph.nodes import (
    AdaptiveKL,
    RunningMean,
    adaptive_kl_coef,
    cispo_loss,
    clipped_policy_loss,
    discounted_returns,
    gae,
    generate,
    group_advantage,
    gspo_policy_loss,
    importance_weights,
    kl_in_reward,
    leave_one_out_advantage,
    logprobs,
    mask_rows,
    reward_at_end,
    score,
    subtract_greedy,
    subtract_running_mean,
    token_kl,
    update,
    value_loss,
    values,
    whiten,
)
from rlgraph.records import Prompts
from rlgraph.settings import PolicyConfig
from rlgraph.testing import FakeCritic, FakePolicy, FakeRewarder, check_rollout, fake_prompts


def share_of_fours(tokens: list[int]) -> float:
    return tokens.count(4) / len(tokens)


def test_generate_keeps_prompts_together_and_measures() -> None:
    with collect() as metrics:
        rollout = generate(FakePolicy(), fake_prompts(3), samples=4, max_new_tokens=2)
    check_rollout(rollout)
    assert rollout.group.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert metrics["rollout/rows"].value == 12
    assert metrics["rollout/response_length_max"].value == 2
    assert metrics["rollout/truncated"].value == rollout.truncated.float().mean()


def test_temperature_zero_is_greedy() -> None:
    policy = FakePolicy()
    with torch.no_grad():
        policy.table[:, 5] = 2.0
    rollout = generate(policy, fake_prompts(2), temperature=0.0)
    assert (rollout.tokens[rollout.action_mask] == 5).all()


def test_failed_scores_are_counted_and_not_averaged() -> None:
    rollout = generate(FakePolicy(), fake_prompts(4))
    fails = iter([1.0, math.nan, 3.0, math.inf])
    with collect() as metrics:
        rewards = score(FakeRewarder(lambda tokens: next(fails)), rollout)
    assert rewards.valid.tolist() == [True, False, True, False]
    assert metrics["reward/invalid"].value == 2
    assert metrics["reward/mean"].value == 2


def test_scoring_agrees_with_sampling() -> None:
    policy = FakePolicy()
    rollout = generate(policy, fake_prompts(5), samples=3)
    torch.testing.assert_close(logprobs(policy, rollout), rollout.logprobs)
    assert not values(FakeCritic(), rollout).any()


def grpo(policy, critic, rollout, rewards, loss=clipped_policy_loss):
    advantages = group_advantage(rewards, rollout.group, rollout.action_mask)
    update(policy, loss, rollout, advantages=advantages)


def rloo(policy, critic, rollout, rewards):
    advantages = leave_one_out_advantage(rewards, rollout.group, rollout.action_mask)
    update(policy, clipped_policy_loss, rollout, advantages=advantages)


def ppo(policy, critic, rollout, rewards):
    rollout = mask_rows(rollout, rewards.valid)
    mask = rollout.action_mask
    old = values(critic, rollout)
    kl = token_kl(rollout.logprobs, logprobs(FakePolicy(), rollout), mask)
    estimate = gae(kl_in_reward(rewards, kl, mask, kl_coef=0.01), old, mask)
    advantages = whiten(estimate.advantages, mask)
    update(policy, clipped_policy_loss, rollout, advantages=advantages, minibatches=2)
    update(critic, value_loss, rollout, old_values=old, returns=estimate.returns, epochs=2)


def reinforce_pp(policy, critic, rollout, rewards):
    mask = rollout.action_mask
    kl = token_kl(rollout.logprobs, logprobs(FakePolicy(), rollout), mask)
    returns = discounted_returns(kl_in_reward(rewards, kl, mask, kl_coef=0.01), mask)
    update(policy, clipped_policy_loss, rollout, advantages=whiten(returns, mask))


def remax(policy, critic, rollout, rewards):
    greedy = generate(policy, fake_prompts(16), temperature=0.0, max_new_tokens=4)
    baseline = score(FakeRewarder(share_of_fours), greedy)
    shaped = subtract_greedy(rewards, rollout.group, baseline, greedy)
    advantages = reward_at_end(shaped, rollout.action_mask)
    advantages = discounted_returns(advantages, rollout.action_mask)
    update(policy, clipped_policy_loss, rollout, advantages=advantages)


def corrected(policy, critic, rollout, rewards):
    old = logprobs(policy, rollout)
    weights = importance_weights(old, rollout.logprobs, rollout.action_mask)
    advantages = group_advantage(rewards, rollout.group, rollout.action_mask)
    update(
        policy,
        clipped_policy_loss,
        rollout,
        advantages=advantages,
        old_logprobs=old,
        weights=weights,
    )


@pytest.mark.parametrize(
    "algorithm",
    [
        grpo,
        partial(grpo, loss=gspo_policy_loss),
        partial(grpo, loss=cispo_loss),
        rloo,
        ppo,
        reinforce_pp,
        remax,
        corrected,
    ],
    ids=["grpo", "gspo", "cispo", "rloo", "ppo", "reinforce_pp", "remax", "corrected"],
)
def test_algorithms_learn_on_plain_tensors(algorithm) -> None:
    """No graph, no executor: nodes are functions."""
    policy, critic = FakePolicy(learning_rate=40.0), FakeCritic()
    rewarder = FakeRewarder(share_of_fours)
    means = []
    for _ in range(10):
        rollout = generate(policy, fake_prompts(16), samples=8, max_new_tokens=4)
        rewards = score(rewarder, rollout)
        means.append(float(rewards.scores.mean()))
        algorithm(policy, critic, rollout, rewards)
    assert means[0] < 0.25
    assert means[-1] > 0.5


@dataclass(frozen=True)
class Fixed(Handle):
    role: type

    @property
    def roles(self):
        return {self.role: Resident(self.name, "reward", None)}

    @property
    def outputs(self):
        return ("values",)


@dataclass(frozen=True)
class Critic(Fixed):
    @property
    def roles(self):
        resident = Resident(self.name, "trainer", None)
        return {ValueModel: resident, Trainer: resident}


@node
def draw(stream: PromptStream) -> Prompts:
    raise NotImplementedError


def test_ppo_with_all_trimmings_is_a_valid_graph() -> None:
    with Graph("ppo") as graph:
        policy, critic = Policy("policy", PolicyConfig()), Critic("critic", ValueModel)
        prompts = draw(Fixed("prompts", PromptStream))
        rollout = generate(policy, prompts)
        rewards = score(Fixed("reward", Rewarder), rollout)
        baseline = Stateful("baseline", RunningMean, RunningMean)
        rewards = subtract_running_mean(baseline, rewards)
        rollout = mask_rows(rollout, rewards.valid)
        mask = rollout.action_mask
        kl = token_kl(rollout.logprobs, logprobs(policy.frozen(), rollout), mask)
        controller = Stateful("kl", partial(AdaptiveKL, 0.1, 6.0), AdaptiveKL)
        coef = adaptive_kl_coef(controller, kl, mask)
        old = values(critic, rollout)
        estimate = gae(kl_in_reward(rewards, kl, mask, kl_coef=coef), old, mask)
        advantages = whiten(estimate.advantages, mask)
        update(policy, clipped_policy_loss, rollout, advantages=advantages)
        update(critic, value_loss, rollout, old_values=old, returns=estimate.returns)
    order = [each.name for each in graph.order()]
    assert order[-2:] == ["update", "update_2"]
    assert graph.nodes["subtract_running_mean"].resident.kind == "state"


def test_wiring_mistakes_are_found_before_anything_starts() -> None:
    with Graph("wrong"):
        policy = Policy("policy", PolicyConfig())
        rollout = generate(policy, draw(Fixed("prompts", PromptStream)))
        rewards = score(Fixed("reward", Rewarder), rollout)
        with pytest.raises(GraphError, match="'token_rewards' takes Float"):
            gae(rewards.scores, rewards.scores, rollout.action_mask)
        with pytest.raises(GraphError, match="also needs advantages="):
            update(policy, clipped_policy_loss, rollout)
        with pytest.raises(GraphError, match="wants values"):
            update(
                policy,
                value_loss,
                rollout,
                old_values=rollout.logprobs,
                returns=rollout.logprobs,
            )
