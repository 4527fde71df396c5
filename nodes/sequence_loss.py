"""A policy loss whose importance ratio belongs to the sequence."""

from jaxtyping import Float
from torch import Tensor

from rlgraph.nodes.kl import Estimator
from rlgraph.nodes.ratio import kl_term, log_clipping, log_policy, log_ratio_to_old
from rlgraph.records import Rollout


def gspo_policy_loss(
    logprobs: Float[Tensor, "batch seq"],
    rollout: Rollout,
    advantages: Float[Tensor, "batch seq"],
    *,
    old_logprobs: Float[Tensor, "batch seq"] | None = None,
    weights: Float[Tensor, "batch seq"] | None = None,
    reference_logprobs: Float[Tensor, "batch seq"] | None = None,
    kl_coef: float | Float[Tensor, ""] = 0.0,
    kl_estimator: Estimator = "k3",
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> Float[Tensor, " batch"]:
    """One clipped term a row, with the row's ratio the geometric mean of its tokens'.

    ``s = exp(mean_t log(pi(a_t) / pi_old(a_t)))`` over the row's action tokens::

        L = w max(-s A, -clip(s, 1 - clip_low, 1 + clip_high) A) + kl_coef mean_t KL_t

    A and w are the means over the row's action tokens, so advantages that are
    the same along a row are taken as they are. A row without action tokens is 0.
    The terms are per row: the ``aggregation`` of ``update`` is a mean over rows
    whatever it says of tokens. Arguments as for
    :func:`~rlgraph.nodes.policy_loss.clipped_policy_loss`; the clip range is the
    paper's, and far smaller, since s varies less than a token's ratio.

    Source: GSPO (Zheng et al., 2025, arXiv:2507.18071, eq. 5 to 7, section 5.1).
    """
    mask = rollout.action_mask
    log_ratio = log_ratio_to_old(logprobs, rollout, old_logprobs)
    log_policy(log_ratio, logprobs, mask)
    count = mask.sum(-1).clamp(min=1)

    def row_mean(values: Tensor) -> Tensor:
        return values.where(mask, 0.0).sum(-1) / count

    ratio = row_mean(log_ratio).exp()
    advantage = row_mean(advantages)
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    terms = -(ratio * advantage).minimum(clipped * advantage)
    acted = mask.any(-1)
    log_clipping(ratio, advantage, clip_low, clip_high, acted)
    if weights is not None:
        terms = terms * row_mean(weights)
    kl = kl_term(logprobs, reference_logprobs, mask, kl_coef, kl_estimator)
    terms = terms + (row_mean(kl) if isinstance(kl, Tensor) else kl)
    return terms.where(acted, 0.0)
