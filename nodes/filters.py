"""Filters: nodes that say which rows to keep, and nodes that obey them.

A filter is any node that returns ``Bool[batch]``; writing another one takes no
more than that. ``rewards.valid`` and ``rollout.truncated`` are such values too.
"""

from jaxtyping import Bool, Int
from torch import Tensor

from rlgraph import Split, node
from rlgraph.metrics import log
from rlgraph.nodes.groups import group_statistics
from rlgraph.records import Rewards, Rollout


@node(split=Split.GROUPS)
def mixed_groups(rewards: Rewards, group: Int[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
    """Keep groups whose valid rewards differ: the others have no advantage to learn from.

    Source: dynamic sampling in DAPO (Yu et al., 2025, arXiv:2503.14476, section 3.2).

    >>> from torch import tensor
    >>> mixed_groups(Rewards.of([1.0, 1.0, 0.0, 1.0]), tensor([5, 5, 6, 6])).tolist()
    [False, False, True, True]
    """
    keep = group_statistics(rewards, group).varied
    log("filter/kept", keep)
    return keep


@node(split=Split.GROUPS)
def groups_in_range(
    rewards: Rewards, group: Int[Tensor, " batch"], *, low: float, high: float
) -> Bool[Tensor, " batch"]:
    """Keep groups whose mean valid reward lies strictly between ``low`` and ``high``.

    A group without a valid reward is not kept.

    >>> from torch import tensor
    >>> rewards = Rewards.of([1.0, 1.0, 0.0, 1.0])
    >>> groups_in_range(rewards, tensor([5, 5, 6, 6]), low=0.0, high=1.0).tolist()
    [False, False, True, True]
    """
    statistics = group_statistics(rewards, group)
    inside = (statistics.mean > low) & (statistics.mean < high)
    keep = inside & (statistics.count > 0)
    log("filter/kept", keep)
    return keep


@node(split=Split.ROWS)
def both(first: Bool[Tensor, " batch"], second: Bool[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
    """Keep what two filters keep."""
    return first & second


@node(split=Split.ROWS)
def select(rollout: Rollout, keep: Bool[Tensor, " batch"]) -> Rollout:
    """The rows to keep, in order. What else speaks of these rows must be selected too."""
    log("filter/dropped_rows", ~keep, kind="sum")
    return rollout[keep]


@node(split=Split.ROWS)
def select_rewards(rewards: Rewards, keep: Bool[Tensor, " batch"]) -> Rewards:
    """The rewards of the rows to keep, in order."""
    return rewards[keep]


@node(split=Split.ROWS)
def mask_rows(rollout: Rollout, keep: Bool[Tensor, " batch"]) -> Rollout:
    """All rows, but those not to keep lose their action tokens.

    Unlike :func:`select` this keeps everything aligned that was computed from
    the rollout. Every node and loss goes by the action mask, so such a row is in
    no statistic and no average: ``mask_rows(rollout, rewards.valid)`` takes rows
    whose reward failed out of an algorithm with a critic.
    """
    log("filter/masked_rows", ~keep, kind="sum")
    mask = rollout.action_mask & keep[:, None]
    return rollout.replace(action_mask=mask, logprobs=rollout.logprobs.where(mask, 0.0))
