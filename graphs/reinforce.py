"""REINFORCE: the score, less what scores have been so far, times the log-probability.

Williams, 1992. The baseline is a running mean of earlier batches' scores.
"""

from dataclasses import dataclass
from functools import partial

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.models import Stateful
from rlgraph.nodes import (
    RunningMean,
    discounted_returns,
    generate,
    policy_gradient_loss,
    reward_at_end,
    score,
    subtract_running_mean,
    update,
)


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of REINFORCE."""

    samples_per_prompt: int = 8
    """Responses to each prompt."""
    baseline: bool = True
    """Subtract the running mean of earlier scores."""
    momentum: float = 0.9
    """How slowly the running mean follows."""
    gamma: float = 1.0
    """Discount of later rewards."""


def build(config: Config) -> Graph:
    """Sample, score, subtract the baseline, follow the gradient."""
    with Graph("reinforce") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        if config.baseline:
            mean = Stateful("baseline", partial(RunningMean, config.momentum), RunningMean)
            rewards = subtract_running_mean(mean, rewards)
        token_rewards = reward_at_end(rewards, rollout.action_mask)
        returns = discounted_returns(token_rewards, rollout.action_mask, gamma=config.gamma)
        update(policy, policy_gradient_loss, rollout, advantages=returns)
    return graph
