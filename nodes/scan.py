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
        return zeros.scatter(-1, self.position, values.double())[:, : self.width]

    def scatter(self, values: Float[Tensor, "batch actions"]) -> Float[Tensor, "batch seq"]:
        """Back to where they came from, in float32; 0 elsewhere."""
        return pad(values, (0, 1)).gather(-1, self.position).float()


def discounted_sum(
    values: Float[Tensor, "batch actions"], discount: float
) -> Float[Tensor, "batch actions"]:
    """``y_t = x_t + discount * y_{t+1}`` along each row.

    Doubles the reach of every sum in each round, so that a row of n tokens
    takes log2(n) tensor operations and not n (Hillis and Steele, 1986).

    >>> discounted_sum(torch.tensor([[4.0, 2.0, 8.0]]), 0.5)
    tensor([[7., 6., 8.]])
    """
    reach, weight = 1, discount
    while reach < values.shape[-1]:
        values = values + weight * pad(values[:, reach:], (0, reach))
        reach, weight = 2 * reach, weight * weight
    return values
