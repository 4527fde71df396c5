"""ReMax: the greedy response to the same prompt is the baseline (Li et al., 2023).

arXiv:2310.10505. A second ``generate`` node at temperature 0 gives the baseline.
The KL penalty is taken off the sampled response's score, as in the paper's
experiments. Departure: PPO's clipped loss, the same at the first optimizer step.
"""

from dataclasses import dataclass

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import (
    clipped_policy_loss,
    discounted_returns,
    generate,
    kl_in_score,
    logprobs,
    reward_at_end,
    score,
    subtract_greedy,
    token_kl,
    update,
)


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of ReMax."""

    samples_per_prompt: int = 4
    """Sampled responses to each prompt, beside the greedy one."""
    kl_coef: float = 1e-3
    """Weight of the KL penalty in the score."""


def build(config: Config) -> Graph:
    """Sample, answer greedily too, and follow the difference."""
    with Graph("remax") as graph:
        policy, reward = config.policy(), config.reward()
        prompts = config.prompts()
        rollout = generate(policy, prompts, samples=config.samples_per_prompt)
        greedy = generate(policy, prompts, temperature=0.0, name="greedy")
        baseline = score(reward, greedy, name="greedy_reward")
        better = subtract_greedy(score(reward, rollout), rollout.group, baseline, greedy)
        reference = logprobs(policy.frozen(), rollout)
        kl = token_kl(rollout.logprobs, reference, rollout.action_mask)
        penalised = kl_in_score(better, kl, rollout.action_mask, kl_coef=config.kl_coef)
        returns = discounted_returns(
            reward_at_end(penalised, rollout.action_mask), rollout.action_mask
        )
        update(policy, clipped_policy_loss, rollout, advantages=returns)
    return graph
