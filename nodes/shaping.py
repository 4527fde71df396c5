"""Changing rewards before they are used; the order of these nodes in a graph matters."""

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from rlgraph import Split, node
from rlgraph.metrics import log
from rlgraph.records import Rewards


@node(split=Split.ROWS)
def clip_rewards(rewards: Rewards, *, low: float, high: float) -> Rewards:
    """Scores held within ``[low, high]``; invalid rows stay invalid and 0.

    Raises:
        ValueError: ``low`` exceeds ``high``.

    >>> clip_rewards(Rewards.of([-3.0, 0.5, 7.0]), low=-1, high=1).scores
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if low > high:
        raise ValueError(f"clip range is empty: low {low:g} exceeds high {high:g}")
    outside = (rewards.scores < low) | (rewards.scores > high)
    log("reward/clipped", outside, rewards.valid)
    return _rescored(rewards, rewards.scores.clamp(low, high))


@node(split=Split.ROWS)
def overlong_penalty(
    rewards: Rewards,
    action_mask: Bool[Tensor, "batch seq"],
    *,
    max_length: int,
    buffer: int,
    factor: float = 1.0,
) -> Rewards:
    """Scores minus a penalty that grows over the last ``buffer`` tokens of the limit.

    With L the row's action tokens::

        R - factor * clip((L - (max_length - buffer)) / buffer, 0, 1)

    Args:
        rewards: one score a row.
        action_mask: which tokens the policy chose.
        max_length: the most tokens that a response can have.
        buffer: over how many tokens the penalty grows from 0 to ``factor``.
        factor: the penalty at ``max_length``.

    Raises:
        ValueError: the buffer is not between 1 and ``max_length``.

    Source: DAPO (Yu et al., 2025, arXiv:2503.14476, eq. 13).
    """
    if not 1 <= buffer <= max_length:
        raise ValueError(f"buffer is {buffer}; it must be between 1 and max_length {max_length}")
    length = action_mask.sum(-1)
    share = ((length - (max_length - buffer)) / buffer).clamp(0, 1)
    log("reward/overlong", share > 0, rewards.valid)
    return _rescored(rewards, rewards.scores - factor * share)


@node(split=Split.ROWS)
def truncation_penalty(
    rewards: Rewards,
    truncated: Bool[Tensor, " batch"],
    *,
    value: float,
    mode: Literal["subtract", "scale", "replace"] = "subtract",
) -> Rewards:
    """Scores of rows that the length limit cut off: R - value, R * value, or value itself.

    >>> from torch import tensor
    >>> truncation_penalty(Rewards.of([1.0, 1.0]), tensor([True, False]), value=0.25).scores
    tensor([0.7500, 1.0000])
    """
    scores = rewards.scores
    match mode:
        case "subtract":
            changed = scores - value
        case "scale":
            changed = scores * value
        case "replace":
            changed = scores.new_full(scores.shape, value)
    log("reward/truncation_penalised", truncated, rewards.valid)
    return _rescored(rewards, changed.where(truncated, scores))


@node(split=Split.ROWS)
def combine_rewards(
    first: Rewards, second: Rewards, *, first_weight: float = 1.0, second_weight: float = 1.0
) -> Rewards:
    """The weighted sum of two rewards; valid where both are."""
    scores = first_weight * first.scores + second_weight * second.scores
    return _rescored(first.replace(valid=first.valid & second.valid), scores)


@node(split=Split.ROWS)
def combine_advantages(
    first: Float[Tensor, "batch seq"],
    second: Float[Tensor, "batch seq"],
    *,
    first_weight: float = 1.0,
    second_weight: float = 1.0,
) -> Float[Tensor, "batch seq"]:
    """The weighted sum of two advantages, such as those of two separately normalised rewards."""
    return first_weight * first + second_weight * second


def _rescored(rewards: Rewards, scores: Float[Tensor, " batch"]) -> Rewards:
    return rewards.replace(scores=scores.where(rewards.valid, 0.0))
