"""What a critic is trained on."""

from jaxtyping import Float
from torch import Tensor

from rlgraph.metrics import log
from rlgraph.records import Sequences


def value_loss(
    values: Float[Tensor, "batch seq"],
    rollout: Sequences,
    old_values: Float[Tensor, "batch seq"],
    returns: Float[Tensor, "batch seq"],
    *,
    value_clip: float | None = 0.2,
) -> Float[Tensor, "batch seq"]:
    """Squared error to the returns, with steps from the old values held small.

    ``L = max((V - G)^2, (clip(V, V_old - eps, V_old + eps) - G)^2) / 2`` at the
    action tokens; 0 elsewhere.

    Args:
        values: V, of the critic being trained.
        rollout: gives the action mask.
        old_values: V_old, before the update.
        returns: G, from :func:`~rlgraph.nodes.returns.gae`.
        value_clip: eps; None is the plain squared error.

    Source: the value clipping of OpenAI's PPO implementation; studied by
    Engstrom et al., 2020 (arXiv:2005.12729).
    """
    mask = rollout.action_mask
    error = (values - returns).where(mask, 0.0) ** 2
    log("value/squared_error", error, mask)
    if value_clip is not None:
        near = old_values + (values - old_values).clamp(-value_clip, value_clip)
        clipped_error = (near - returns).where(mask, 0.0) ** 2
        log("value/clipped", clipped_error > error, mask)
        error = error.maximum(clipped_error)
    return error / 2
