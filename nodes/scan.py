"""Sums over the action tokens that follow, with a discount."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class ActionTokens:
    """The action tokens of each row side by side, as if nothing lay between them.

    Along such rows a recursion over action tokens needs no masks: whatever lies
    in between (observations) is carried over unchanged by not being there. Steps
    come first and rows second, so that a step of all rows is one piece of memory.
    """

    def __init__(self, action_mask: Bool[Tensor, "batch seq"]) -> None:
        counts = action_mask.sum(-1)
        self.steps = int(counts.max()) if counts.numel() else 0
        # One more step takes in whatever is no action.
        self.step = action_mask.cumsum(-1).sub_(1).masked_fill_(~action_mask, self.steps)

    def gather(self, values: Float[Tensor, "batch seq"]) -> Float[Tensor, "steps batch"]:
        """The values at the action tokens, in float64 and memory of their own; else 0."""
        rows = values.new_zeros(len(values), self.steps + 1).scatter_(-1, self.step, values)
        by_step = torch.empty(self.steps, len(values), dtype=torch.float64)
        return by_step.copy_(rows[:, : self.steps].T)

    def scatter(self, by_step: Float[Tensor, "steps batch"]) -> Float[Tensor, "batch seq"]:
        """Back to where they came from, in float32; 0 elsewhere."""
        rows = torch.zeros(by_step.shape[1], self.steps + 1)
        rows[:, : self.steps].copy_(by_step.T)
        return rows.gather(-1, self.step)


def discounted_sum_(values: Float[Tensor, "steps batch"], discount: float) -> Tensor:
    """``y_t = x_t + discount * y_{t+1}`` down each column, in place.

    >>> discounted_sum_(torch.tensor([[4.0], [2.0], [8.0]]), 0.5).flatten()
    tensor([7., 6., 8.])
    """
    # About 2 microseconds a step, less than any scan of logarithmic depth costs.
    steps = values.unbind(0)
    for now, later in zip(steps[-2::-1], steps[:0:-1], strict=True):
        now.add_(later, alpha=discount)
    return values
