"""Reward statistics that are carried from step to step.

The objects are states: a graph names one with :class:`rlgraph.models.Stateful`,
and its checkpoint keeps it.
"""

import math
from collections.abc import Mapping
from typing import Any

from rlgraph import node
from rlgraph.metrics import log
from rlgraph.records import Rewards


class RunningMean:
    """An exponentially weighted mean of batch means, without bias toward its start at 0.

    >>> mean = RunningMean(momentum=0.5)
    >>> mean.update(4.0), mean.update(1.0)
    (None, None)
    >>> mean.value  # (0.5 * 1 + 0.25 * 4) / (0.5 + 0.25)
    2.0
    """

    def __init__(self, momentum: float = 0.9) -> None:
        """``momentum`` is the share of the past.

        Raises:
            ValueError: it is not in ``[0, 1)``.
        """
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum:g}; it must be at least 0 and below 1")
        self.momentum = momentum
        self.total = 0.0
        self.weight = 0.0

    @property
    def value(self) -> float:
        """The mean so far; 0 before the first batch."""
        return self.total / self.weight if self.weight else 0.0

    def update(self, batch_mean: float) -> None:
        """Take in one batch."""
        self.total = self.momentum * self.total + (1 - self.momentum) * batch_mean
        self.weight = self.momentum * self.weight + (1 - self.momentum)

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"total": self.total, "weight": self.weight}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.total, self.weight = state["total"], state["weight"]


class RunningMoments:
    """Mean and standard deviation of everything seen so far (Chan et al., 1979)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0
        """The sum of squared deviations from the mean."""

    @property
    def std(self) -> float:
        """Sample standard deviation (ddof 1); 0 until two values differ."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    def update(self, count: int, mean: float, squares: float) -> None:
        """Take in ``count`` values with this mean and sum of squared deviations."""
        if not count:
            return
        total = self.count + count
        gap = mean - self.mean
        self.squares += squares + gap**2 * self.count * count / total
        self.mean += gap * count / total
        self.count = total

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.count, self.mean, self.squares = state["count"], state["mean"], state["squares"]


@node
def subtract_running_mean(baseline: RunningMean, rewards: Rewards) -> Rewards:
    """Scores minus the mean of *earlier* batches, which then takes in this one.

    A baseline that knew this batch would depend on the actions that it judges
    and bias the gradient. Invalid rows stay invalid, and teach the baseline nothing.

    Source: Williams, 1992 (reinforcement baseline).
    """
    before = baseline.value
    log("reward/baseline", before)
    if rewards.valid.any():
        baseline.update(float(rewards.scores[rewards.valid].double().mean()))
    return rewards.replace(scores=(rewards.scores - before).where(rewards.valid, 0.0))


@node
def normalize_rewards(
    moments: RunningMoments, rewards: Rewards, *, shift_mean: bool = True, eps: float = 1e-8
) -> Rewards:
    """``(R - mean) / (std + eps)`` over all rewards of the run, this batch included.

    While all rewards were equal, or there was only one, they are only centred.
    Invalid rows stay invalid and are not counted.

    Args:
        moments: the run's mean and deviation; takes in this batch first.
        rewards: one score a row.
        shift_mean: False only scales.
        eps: keeps tiny deviations from blowing up.
    """
    valid = rewards.scores[rewards.valid].double()
    if valid.numel():
        mean = valid.mean()
        moments.update(valid.numel(), float(mean), float(((valid - mean) ** 2).sum()))
    log("reward/running_mean", moments.mean)
    log("reward/running_std", moments.std)
    scores = rewards.scores.double() - (moments.mean if shift_mean else 0.0)
    if moments.std:
        scores = scores / (moments.std + eps)
    return rewards.replace(scores=scores.float().where(rewards.valid, 0.0))
