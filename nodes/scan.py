"""Sums over the action tokens that follow, with a discount."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad


class ActionTokens:
    """The action tokens of each row side by side, as if nothing lay between them.

    Along such rows a recursion over action tokens needs no masks: whatever lies
    in between (observations) is carried over unchanged by not being there.
    """

    def __init__(self, action_mask: Bool[Tensor, "batch seq"]) -> None:
        self.mask = action_mask
        counts = action_mask.sum(-1)
        self.width = int(counts.max()) if counts.numel() else 0
        position = action_mask.cumsum(-1) - 1
        # One more column takes in whatever is no action.
        self.position = position.where(action_mask, self.width)

    def gather(self, values: Float[Tensor, "batch seq"]) -> Float[Tensor, "batch actions"]:
        """The values at the action tokens, in float64, zeros behind them."""
        zeros = torch.zeros(len(values), self.width + 1, dtype=torch.float64)
        return zeros.scatter_(-1, self.position, values.double())[:, : self.width]

    def scatter(self, values: Float[Tensor, "batch actions"]) -> Float[Tensor, "batch seq"]:
        """Back to where they came from, in float32; 0 elsewhere."""
        return pad(values, (0, 1)).gather(-1, self.position).float()


def discounted_sum(
    values: Float[Tensor, "batch actions"], discount: float
) -> Float[Tensor, "batch actions"]:
    """``y_t = x_t + discount * y_{t+1}`` along each row.

    >>> discounted_sum(torch.tensor([[4.0, 2.0, 8.0]]), 0.5)
    tensor([[7., 6., 8.]])
    """
    # One step of all rows at a time, in place and side by side in memory: of the
    # order of 2 microseconds a step, less than any scan of log depth costs.
    by_step = values.T.clone(memory_format=torch.contiguous_format)
    steps = by_step.unbind(0)
    for now, later in zip(steps[-2::-1], steps[:0:-1], strict=True):
        now.add_(later, alpha=discount)
    return by_step.T
