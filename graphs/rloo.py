"""RLOO: each response is measured against the mean of its siblings (Ahmadian et al., 2024).

Back to Basics, arXiv:2402.14740. The KL to the reference is taken off the score,
summed over the response, before the baseline is computed. Departure: the loss is
PPO's clipped one, which equals the paper's at the first optimizer step of a batch.
"""

from dataclasses import dataclass

from rlgraph import Graph, GraphError
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import (
    clipped_policy_loss,
    generate,
    kl_in_score,
    leave_one_out_advantage,
    logprobs,
    score,
    token_kl,
    update,
)


@dataclass(frozen=True)
class Config(OnPolicyConfig):
    """Settings of RLOO."""

    samples_per_prompt: int = 8
    """Responses to each prompt; at least 2."""
    kl_coef: float = 1e-3
    """Weight of the KL penalty in the score."""


def build(config: Config) -> Graph:
    """Sample groups, leave each response out of its own baseline, take one step."""
    if config.samples_per_prompt < 2:
        raise GraphError("rloo: a response needs siblings; set --samples-per-prompt to 2 or more")
    with Graph("rloo") as graph:
        policy = config.policy()
        rollout = generate(policy, config.prompts(), samples=config.samples_per_prompt)
        rewards = score(config.reward(), rollout)
        reference = logprobs(policy.frozen(), rollout)
        kl = token_kl(rollout.logprobs, reference, rollout.action_mask)
        penalised = kl_in_score(rewards, kl, rollout.action_mask, kl_coef=config.kl_coef)
        advantages = leave_one_out_advantage(penalised, rollout.group, rollout.action_mask)
        update(policy, clipped_policy_loss, rollout, advantages=advantages)
    return graph
