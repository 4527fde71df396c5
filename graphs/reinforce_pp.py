"""REINFORCE++: PPO without a critic, advantages whitened over the whole batch (Hu, 2025).

arXiv:2501.03262. Per-token KL penalty in the reward, discounted return-to-go,
whitening over all action tokens, PPO's clipped loss.
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import (
    clipped_policy_loss,
    discounted_returns,
    generate,
    kl_in_reward,
    logprobs,
    mask_rows,
    score,
    token_kl,
    update,
    whiten,
)


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of REINFORCE++."""

    samples_per_prompt: int = 8
    """Responses to each prompt."""
    kl_coef: float = 1e-3
    """Weight of the KL penalty in the reward."""
    gamma: float = 1.0
    """Discount of later rewards."""


def build(config: Config) -> Graph:
    """Sample, score, whiten the returns over the batch, take one clipped step."""
    with Graph("reinforce_pp") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        # A row whose scorer failed must not count in the whitening below.
        rollout = mask_rows(rollout, rewards.valid)
        reference = logprobs(policy.frozen(), rollout)
        kl = token_kl(rollout.logprobs, reference, rollout.action_mask)
        token_rewards = kl_in_reward(rewards, kl, rollout.action_mask, kl_coef=config.kl_coef)
        returns = discounted_returns(token_rewards, rollout.action_mask, gamma=config.gamma)
        advantages = whiten(returns, rollout.action_mask)
        update(policy, clipped_policy_loss, rollout, advantages=advantages)
    return graph
