"""Mean 0 and variance 1 over the whole batch."""

from jaxtyping import Bool, Float
from torch import Tensor

from rlgraph import node


@node
def whiten(
    values: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    shift_mean: bool = True,
    unbiased: bool = True,
    eps: float = 1e-8,
) -> Float[Tensor, "batch seq"]:
    """``(x - mean) * rsqrt(var + eps)`` over all action tokens of the batch; 0 elsewhere.

    If all values are equal, or there is only one, the variance says nothing and
    they are only centred: they become 0.

    Args:
        values: such as advantages.
        action_mask: which tokens count.
        shift_mean: False adds the mean back afterwards.
        unbiased: divide the squares by n - 1; False by n.
        eps: keeps tiny variances from blowing up.

    >>> from torch import tensor
    >>> whiten(tensor([[9.0, 1.0, 3.0]]), tensor([[False, True, True]]))
    tensor([[ 0.0000, -0.7071,  0.7071]])
    """
    exact = values.double().where(action_mask, 0.0)
    count = action_mask.sum().clamp(min=1)
    mean = exact.sum() / count
    chosen = exact[action_mask]
    centred = (exact - mean).where(action_mask, 0.0)
    if chosen.numel() and chosen.min() == chosen.max():
        # The mean of equal numbers is not always exactly equal to them.
        centred = centred.zero_()
    variance = (centred**2).sum() / ((count - 1).clamp(min=1) if unbiased else count)
    whitened = centred * (variance + eps).rsqrt()
    if not shift_mean:
        whitened = whitened + mean
    return whitened.where(action_mask, 0.0).float()
