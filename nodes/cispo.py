"""A policy loss that clips the importance weight, not the update."""

from jaxtyping import Float
from torch import Tensor

from rlgraph.metrics import log
from rlgraph.nodes.kl import Estimator
from rlgraph.nodes.ratio import kl_term, log_policy, log_ratio_to_old
from rlgraph.records import Rollout


def cispo_loss(
    logprobs: Float[Tensor, "batch seq"],
    rollout: Rollout,
    advantages: Float[Tensor, "batch seq"],
    *,
    old_logprobs: Float[Tensor, "batch seq"] | None = None,
    weights: Float[Tensor, "batch seq"] | None = None,
    reference_logprobs: Float[Tensor, "batch seq"] | None = None,
    kl_coef: float | Float[Tensor, ""] = 0.0,
    kl_estimator: Estimator = "k3",
    clip_low: float = 1.0,
    clip_high: float = 4.0,
) -> Float[Tensor, "batch seq"]:
    """Terms ``-w sg(clip(s, 1 - clip_low, 1 + clip_high)) A log pi(a) + kl_coef KL``.

    s is the ratio to the old policy and sg stops its gradient, so a token out of
    the range keeps a gradient, of bounded weight, where PPO's clip would drop it.
    At the action tokens; 0 elsewhere. Arguments as for
    :func:`~rlgraph.nodes.policy_loss.clipped_policy_loss`; with the default
    ``clip_low`` of 1 there is no lower bound, as in the paper.

    Source: MiniMax-M1 (2025, arXiv:2506.13585, eq. 4 and 5).
    """
    mask = rollout.action_mask
    log_ratio = log_ratio_to_old(logprobs, rollout, old_logprobs)
    log_policy(log_ratio, logprobs, mask)
    ratio = log_ratio.detach().exp()
    log("policy/clip_low", ratio < 1 - clip_low, mask)
    log("policy/clip_high", ratio > 1 + clip_high, mask)
    terms = -ratio.clamp(1 - clip_low, 1 + clip_high) * advantages * logprobs
    if weights is not None:
        terms = terms * weights
    terms = terms + kl_term(logprobs, reference_logprobs, mask, kl_coef, kl_estimator)
    return terms.where(mask, 0.0)
