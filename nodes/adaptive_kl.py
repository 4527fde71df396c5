"""A KL coefficient that steers the policy's distance from its reference."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlgraph import node
from rlgraph.metrics import log


class AdaptiveKL:
    """The proportional controller of Ziegler et al., 2019 (arXiv:1909.08593, section 2.2).

    ``coef *= 1 + clip(KL / target - 1, -0.2, 0.2) * rows / horizon``
    """

    def __init__(self, initial: float, target: float, horizon: int = 10_000) -> None:
        """Start at ``initial`` and steer to ``target``, over about ``horizon`` rows.

        Raises:
            ValueError: one of them is not positive.
        """
        if min(initial, target, horizon) <= 0:
            raise ValueError(
                f"initial {initial:g}, target {target:g} and horizon {horizon} must be positive"
            )
        self.coef = initial
        self.target = target
        self.horizon = horizon

    def update(self, observed: float, rows: int) -> None:
        """Move toward the target, given the KL of ``rows`` rows.

        Raises:
            ValueError: there are so many rows that the coefficient could reach 0.
        """
        if rows >= 5 * self.horizon:
            raise ValueError(
                f"a batch of {rows} rows is too large for a KL horizon of {self.horizon}: one step "
                f"could turn the coefficient to 0; set the horizon above {rows // 5}"
            )
        error = min(max(observed / self.target - 1, -0.2), 0.2)
        self.coef *= 1 + error * rows / self.horizon

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"coef": self.coef}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.coef = state["coef"]


@node
def adaptive_kl_coef(
    controller: AdaptiveKL,
    kl: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    per: Literal["token", "sequence"] = "token",
) -> Float[Tensor, ""]:
    """The coefficient for this batch; the controller then moves by the batch's KL.

    Args:
        controller: holds the coefficient from step to step.
        kl: from :func:`~rlgraph.nodes.kl.token_kl`, estimator k1.
        action_mask: which tokens the policy chose.
        per: the controller's target is a KL per action token, or per row.
    """
    coef = controller.coef
    count = action_mask.sum() if per == "token" else action_mask.any(-1).sum()
    if count:
        observed = float(kl.double().where(action_mask, 0.0).sum() / count)
        controller.update(observed, len(kl))
    log("kl/coef", coef)
    return torch.tensor(coef)
