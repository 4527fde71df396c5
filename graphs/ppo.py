"""PPO: a critic says what each token was worth (Schulman et al., 2017; Ouyang et al., 2022).

arXiv:1707.06347 and arXiv:2203.02155. As in InstructGPT the KL to the reference
is taken off the reward, token by token. Departures: advantages are whitened over
the batch, and the value loss is clipped, as in OpenAI's implementation.
"""

from dataclasses import dataclass, field

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.models import Stateful
from rlgraph.nodes import (
    StepCounter,
    after_steps,
    clipped_policy_loss,
    gae,
    generate,
    kl_in_reward,
    logprobs,
    mask_rows,
    score,
    token_kl,
    update,
    value_loss,
    values,
    whiten,
)
from rlgraph.settings import CriticConfig


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of PPO."""

    critic: CriticConfig = field(default_factory=CriticConfig)
    samples_per_prompt: int = 4
    """Responses to each prompt."""
    kl_coef: float = 1e-3
    """Weight of the KL penalty in the reward."""
    gamma: float = 1.0
    """Discount of later rewards."""
    lam: float = 0.95
    """GAE: 0 trusts the critic, 1 the rewards."""
    clip: float = 0.2
    """How far the probability ratio may leave 1."""
    value_clip: float = 0.2
    """How far a value may move in one update."""
    epochs: int = 2
    """Passes over each batch."""
    minibatches: int = 4
    """Optimizer steps a pass."""
    critic_warmup_steps: int = 0
    """Steps in which only the critic learns."""


def build(config: Config) -> Graph:
    """Sample, score, estimate advantages with the critic, train both."""
    with Graph("ppo") as graph:
        policy, critic = config.policy(), config.critic(config.policy)
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        # A row whose scorer failed must teach neither the critic nor the whitening below.
        rollout = mask_rows(rollout, rewards.valid)
        reference = logprobs(policy.frozen(), rollout)
        kl = token_kl(rollout.logprobs, reference, rollout.action_mask)
        token_rewards = kl_in_reward(rewards, kl, rollout.action_mask, kl_coef=config.kl_coef)
        old_values = values(critic, rollout)
        estimate = gae(
            token_rewards, old_values, rollout.action_mask, gamma=config.gamma, lam=config.lam
        )
        passes = {"epochs": config.epochs, "minibatches": config.minibatches}
        update(
            policy,
            clipped_policy_loss,
            rollout,
            advantages=whiten(estimate.advantages, rollout.action_mask),
            clip_low=config.clip,
            clip_high=config.clip,
            when=after_steps(
                Stateful("steps", StepCounter, StepCounter), steps=config.critic_warmup_steps
            ),
            **passes,
        )
        update(
            critic,
            value_loss,
            rollout,
            old_values=old_values,
            returns=estimate.returns,
            value_clip=config.value_clip,
            **passes,
        )
    return graph
