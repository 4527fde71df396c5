"""REINFORCE++-baseline: the group mean as baseline, the batch as scale (Hu, 2025).

arXiv:2501.03262, the variant for several responses a prompt: reward minus group
mean, whitened over all action tokens of the batch, KL in the loss (k2).
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import (
    clipped_policy_loss,
    generate,
    group_advantage,
    logprobs,
    mask_rows,
    score,
    update,
    whiten,
)


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of REINFORCE++-baseline."""

    samples_per_prompt: int = 8
    """Responses to each prompt: the group."""
    kl_coef: float = 1e-3
    """Weight of the KL term against the reference."""


def build(config: Config) -> Graph:
    """Sample groups, subtract their means, whiten over the batch, take one clipped step."""
    with Graph("reinforce_pp_baseline") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        # A row whose scorer failed must not count in the whitening below.
        rollout = mask_rows(rollout, rewards.valid)
        reference = logprobs(policy.frozen(), rollout)
        centred = group_advantage(rewards, rollout.group, rollout.action_mask, scale="none")
        update(
            policy,
            clipped_policy_loss,
            rollout,
            advantages=whiten(centred, rollout.action_mask),
            reference_logprobs=reference,
            kl_coef=config.kl_coef,
            kl_estimator="k2",
        )
    return graph
