"""The pieces that policy losses share: ratio, KL term, metrics."""

from jaxtyping import Bool, Float
from torch import Tensor

from rlgraph.metrics import log
from rlgraph.nodes.correction import log_mismatch
from rlgraph.nodes.kl import Estimator, estimate_kl
from rlgraph.records import Rollout

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are held within plus or minus this, so that no ratio overflows."""


def log_ratio_to_old(
    logprobs: Float[Tensor, "batch seq"],
    rollout: Rollout,
    old_logprobs: Float[Tensor, "batch seq"] | None,
) -> Float[Tensor, "batch seq"]:
    """``log pi(a) - log pi_old(a)`` at the action tokens, within +-20; 0 elsewhere.

    ``old_logprobs`` are those of the policy before the update, as the trainer
    computes them. None takes the sampler's own, which came with the rollout.
    """
    mask = rollout.action_mask
    if old_logprobs is not None:
        log_mismatch(old_logprobs, rollout.logprobs, mask)
    old = rollout.logprobs if old_logprobs is None else old_logprobs
    difference = (logprobs - old).where(mask, 0.0)
    return difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def log_policy(
    log_ratio: Float[Tensor, "batch seq"],
    logprobs: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
) -> None:
    """Log how far the policy has moved, and a sampled estimate of its entropy."""
    ratio = log_ratio.exp()
    log("policy/approx_kl", log_ratio.expm1() - log_ratio, action_mask)
    log("policy/ratio_max", ratio, action_mask, kind="max")
    log("policy/ratio_min", ratio, action_mask, kind="min")
    # -log pi(a) of a sampled token has the entropy as its mean, and costs nothing.
    log("policy/entropy_estimate", -logprobs, action_mask)


def log_clipping(ratio: Tensor, advantages: Tensor, low: float, high: float, mask: Tensor) -> None:
    """Log the shares of terms that a clip range ``[1 - low, 1 + high]`` cuts off."""
    log("policy/clip_low", (ratio < 1 - low) & (advantages < 0), mask)
    log("policy/clip_high", (ratio > 1 + high) & (advantages > 0), mask)


def kl_term(
    logprobs: Float[Tensor, "batch seq"],
    reference_logprobs: Float[Tensor, "batch seq"] | None,
    action_mask: Bool[Tensor, "batch seq"],
    coef: float | Float[Tensor, ""],
    estimator: Estimator,
) -> Float[Tensor, "batch seq"] | float:
    """``coef * KL`` of the policy from the reference at each action token; 0 elsewhere.

    Raises:
        ValueError: there is a coefficient, but no reference.
    """
    if reference_logprobs is None:
        if coef != 0:
            raise ValueError(
                f"kl_coef is {float(coef):g}, but the loss got no reference_logprobs: "
                "wire a logprobs node of policy.frozen() to it, or set kl_coef to 0"
            )
        return 0.0
    kl = estimate_kl((logprobs - reference_logprobs).where(action_mask, 0.0), estimator)
    log("kl/reference", kl, action_mask)
    return coef * kl
