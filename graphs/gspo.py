"""GSPO: the probability ratio is that of the whole response (Zheng et al., 2025).

Group Sequence Policy Optimization, arXiv:2507.18071: the ratio is the geometric
mean of the tokens' ratios, with a clip range of its own. No KL term.
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import generate, group_advantage, gspo_policy_loss, logprobs, score, update


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of GSPO."""

    samples_per_prompt: int = 8
    """Responses to each prompt: the group."""
    clip_low: float = 3e-4
    """How far the sequence ratio may fall below 1."""
    clip_high: float = 4e-4
    """How far it may rise above 1."""
    minibatches: int = 4
    """Optimizer steps a batch; with one the ratio is 1 and nothing is clipped."""


def build(config: Config) -> Graph:
    """Sample groups, compare within each, take clipped steps on whole responses."""
    with Graph("gspo") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        update(
            policy,
            gspo_policy_loss,
            rollout,
            # The trainer's own, so that at the first step the ratio is exactly 1.
            old_logprobs=logprobs(policy, rollout),
            advantages=group_advantage(rewards, rollout.group, rollout.action_mask),
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            minibatches=config.minibatches,
        )
    return graph
