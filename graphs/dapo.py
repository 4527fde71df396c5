"""DAPO: clip higher, sample until groups differ, punish overlong answers (Yu et al., 2025).

arXiv:2503.14476. Token-level loss, no KL term. Groups whose rewards are all equal
teach nothing: new prompts are sampled until the batch is full of others.
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.models import Stateful
from rlgraph.nodes import (
    GroupBuffer,
    clipped_policy_loss,
    collect_groups,
    generate,
    group_advantage,
    mixed_groups,
    overlong_penalty,
    rewards_of,
    score,
    update,
)


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of DAPO."""

    samples_per_prompt: int = 8
    """Responses to each prompt: the group."""
    clip_low: float = 0.2
    """How far the probability ratio may fall below 1."""
    clip_high: float = 0.28
    """How far it may rise above 1."""
    max_sampling_rounds: int = 10
    """Times that new prompts are sampled for one batch, at most."""
    overlong_buffer: int = 4
    """Tokens before the length limit over which the penalty grows."""
    overlong_factor: float = 1.0
    """The penalty at the limit."""


def build(config: Config) -> Graph:
    """Collect groups that differ within, shape their rewards, take one clipped step."""
    with Graph("dapo") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        batch = collect_groups(
            Stateful("group_buffer", GroupBuffer, GroupBuffer),
            rollout,
            rewards,
            mixed_groups(rewards, rollout.group),
            groups=config.prompts_per_step,
            max_rounds=config.max_sampling_rounds,
        )
        shaped = overlong_penalty(
            rewards_of(batch),
            batch.action_mask,
            max_length=config.policy.sampler.max_new_tokens,
            buffer=config.overlong_buffer,
            factor=config.overlong_factor,
        )
        update(
            policy,
            clipped_policy_loss,
            batch,
            advantages=group_advantage(shaped, batch.group, batch.action_mask),
            clip_low=config.clip_low,
            clip_high=config.clip_high,
        )
    return graph
