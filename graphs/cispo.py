"""CISPO: clip the importance weight, keep every token's gradient (MiniMax, 2025).

MiniMax-M1, arXiv:2506.13585: a clipped, stop-gradient weight times the
log-probability. Token-level loss over the batch, no KL term, as in the paper.
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import cispo_loss, generate, group_advantage, score, update


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of CISPO."""

    samples_per_prompt: int = 8
    """Responses to each prompt: the group."""
    clip_high: float = 4.0
    """The weight is at most 1 plus this."""
    minibatches: int = 4
    """Optimizer steps a batch; with one the weight is 1."""


def build(config: Config) -> Graph:
    """Sample groups, compare within each, take weighted policy-gradient steps."""
    with Graph("cispo") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        update(
            policy,
            cispo_loss,
            rollout,
            advantages=group_advantage(rewards, rollout.group, rollout.action_mask),
            clip_high=config.clip_high,
            minibatches=config.minibatches,
        )
    return graph
