"""GRPO: a prompt's group of samples is its own baseline (Shao et al., 2024).

DeepSeekMath, arXiv:2402.03300, section 4.1. Departures from the paper: terms are
averaged over the tokens of the whole optimizer batch, not first within each
response (``aggregation="seq-mean-token-mean"`` in ``update`` gives the paper's).
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import (
    clipped_policy_loss,
    generate,
    group_advantage,
    logprobs,
    score,
    update,
)


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of GRPO."""

    samples_per_prompt: int = 8
    """Responses to each prompt: the group."""
    kl_coef: float = 1e-3
    """Weight of the KL term against the reference."""


def build(config: Config) -> Graph:
    """Sample groups, compare within each, take one clipped step."""
    with Graph("grpo") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        reference = logprobs(policy.frozen(), rollout)
        advantages = group_advantage(rewards, rollout.group, rollout.action_mask)
        update(
            policy,
            clipped_policy_loss,
            rollout,
            advantages=advantages,
            reference_logprobs=reference,
            kl_coef=config.kl_coef,
        )
    return graph
