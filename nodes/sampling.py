"""Sampling from the policy."""

from rlgraph import Split, node
from rlgraph.engines.protocols import Sampler
from rlgraph.metrics import log
from rlgraph.records import Prompts, Rollout


@node(split=Split.ROWS)
def generate(
    policy: Sampler,
    prompts: Prompts,
    *,
    samples: int = 1,
    temperature: float | None = None,
    max_new_tokens: int | None = None,
    name: str = "rollout",
) -> Rollout:
    """Sample ``samples`` responses to each prompt; a prompt's rows lie side by side.

    Args:
        policy: the model to sample from.
        prompts: ``[prompts seq]``.
        samples: responses a prompt.
        temperature: 0 is greedy; None is the policy's own setting.
        max_new_tokens: longest response; None is the sampler's own setting.
        name: under which the metrics are logged.

    Returns:
        ``prompts * samples`` rows with the log-probabilities they were sampled with.
    """
    rollout = policy.generate(
        prompts, samples=samples, temperature=temperature, max_new_tokens=max_new_tokens
    )
    actions = rollout.action_mask.sum(-1)
    log(f"{name}/response_length", actions)
    log(f"{name}/response_length_max", actions, kind="max")
    log(f"{name}/prompt_length", prompts.attention_mask.sum(-1))
    log(f"{name}/truncated", rollout.truncated)
    log(f"{name}/tokens", rollout.attention_mask, kind="sum")
    log(f"{name}/rows", float(len(rollout)), kind="sum")
    return rollout
