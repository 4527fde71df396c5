"""Two rewards, each with a say of its own: GRPO per reward, advantages added.

A correctness reward of 0 or 1 and a style reward of -5 to 5 cannot simply be
summed: the louder one wins. Here each is normalised within its group first, so
that the weights mean what they say. The idea is GDPO's (Liu et al., 2026,
arXiv:2601.05242); that the graph takes one more ``score`` and one more
``group_advantage``, and nothing else, is the point.
"""

from dataclasses import dataclass, field

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import (
    clipped_policy_loss,
    combine_advantages,
    generate,
    group_advantage,
    score,
    update,
)
from rlgraph.rewards import RewardConfig


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of GRPO with two rewards."""

    second_reward: RewardConfig = field(
        default_factory=lambda: RewardConfig("rlgraph.graphs.two_reward_grpo:brevity")
    )
    samples_per_prompt: int = 8
    """Responses to each prompt: the group."""
    second_weight: float = 0.25
    """What the second reward's advantage counts beside the first's."""


def brevity(prompts: list[str], responses: list[str]) -> list[float]:
    """Shorter is better: minus the number of characters."""
    return [-float(len(response)) for response in responses]


def build(config: Config) -> Graph:
    """Sample groups, compare within each by both rewards, take one clipped step."""
    with Graph("two_reward_grpo") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = {"reward": config.reward, "second_reward": config.second_reward}
        parts = [
            group_advantage(
                score(reward(name), rollout, name=name), rollout.group, rollout.action_mask
            )
            for name, reward in rewards.items()
        ]
        advantages = combine_advantages(*parts, second_weight=config.second_weight)
        update(policy, clipped_policy_loss, rollout, advantages=advantages)
    return graph
