"""Statistics of the rows that answer the same prompt.

Rows are matched by their group id alone, so a filtered, partial or shuffled
group is as good as a whole one.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlgraph.metrics import log
from rlgraph.records import Rewards


@dataclass(frozen=True)
class GroupStatistics:
    """What each row's group looks like: every field is ``[batch]``, float64 or bool."""

    count: Float[Tensor, " batch"]
    """Valid rows in the group."""
    mean: Float[Tensor, " batch"]
    """Of the valid scores; 0 if there is none."""
    std: Float[Tensor, " batch"]
    """Sample standard deviation (ddof 1); 0 for a single valid row."""
    varied: Bool[Tensor, " batch"]
    """Do the group's valid scores differ at all? Exact, unlike ``std > 0``."""


def group_statistics(rewards: Rewards, group: Int[Tensor, " batch"]) -> GroupStatistics:
    """Count, mean and spread of each row's group over its valid rows.

    >>> from torch import tensor
    >>> group_statistics(Rewards.of([1.0, 5.0, 3.0]), tensor([7, 2, 7])).mean.tolist()
    [2.0, 5.0, 2.0]
    """
    ids, row = group.unique(return_inverse=True)
    zeros = torch.zeros(len(ids), dtype=torch.float64)
    valid = rewards.valid
    scores = rewards.scores.double().where(valid, 0.0)
    count = zeros.index_add(0, row, valid.double())
    mean = zeros.index_add(0, row, scores) / count.clamp(min=1)
    centred = (scores - mean[row]).where(valid, 0.0)
    variance = zeros.index_add(0, row, centred**2) / (count - 1).clamp(min=1)
    low = (zeros + torch.inf).scatter_reduce(0, row, scores.where(valid, torch.inf), "amin")
    high = (zeros - torch.inf).scatter_reduce(0, row, scores.where(valid, -torch.inf), "amax")
    return GroupStatistics(count[row], mean[row], variance.sqrt()[row], (high > low)[row])


def log_groups(statistics: GroupStatistics, rewards: Rewards) -> None:
    """Log, over rows: the spread within groups, and how many groups teach nothing."""
    log("group/std", statistics.std)
    log("group/flat", ~statistics.varied)
    log("group/single", statistics.count == 1)
    log("group/invalid_rows", ~rewards.valid, kind="sum")


def spread_over_actions(
    of_rows: Float[Tensor, " batch"], action_mask: Bool[Tensor, "batch seq"]
) -> Float[Tensor, "batch seq"]:
    """Each row's number at each of its action tokens, float32; 0 elsewhere."""
    return of_rows.float()[:, None].where(action_mask, 0.0)
