"""Dr. GRPO: GRPO without its two biases (Liu et al., 2025).

Understanding R1-Zero-Like Training, arXiv:2503.20783. Advantages are not divided
by the group's deviation, and the loss is divided by a constant length instead of
the response's own. No KL term, as in the paper.
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import clipped_policy_loss, generate, group_advantage, score, update


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of Dr. GRPO."""

    samples_per_prompt: int = 8
    """Responses to each prompt: the group."""


def build(config: Config) -> Graph:
    """Sample groups, subtract their means, sum over tokens, divide by the length limit."""
    with Graph("dr_grpo") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        advantages = group_advantage(rewards, rollout.group, rollout.action_mask, scale="none")
        update(
            policy,
            clipped_policy_loss,
            rollout,
            advantages=advantages,
            aggregation="seq-sum-constant",
            constant_length=config.policy.sampler.max_new_tokens,
        )
    return graph
