"""The clipped policy loss of PPO and GRPO, and its unclipped ancestor."""

from jaxtyping import Float
from torch import Tensor

from rlgraph.metrics import log
from rlgraph.nodes.kl import Estimator
from rlgraph.nodes.ratio import kl_term, log_clipping, log_policy, log_ratio_to_old
from rlgraph.records import Rollout


def clipped_policy_loss(
    logprobs: Float[Tensor, "batch seq"],
    rollout: Rollout,
    advantages: Float[Tensor, "batch seq"],
    *,
    old_logprobs: Float[Tensor, "batch seq"] | None = None,
    weights: Float[Tensor, "batch seq"] | None = None,
    reference_logprobs: Float[Tensor, "batch seq"] | None = None,
    kl_coef: float | Float[Tensor, ""] = 0.0,
    kl_estimator: Estimator = "k3",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Float[Tensor, "batch seq"]:
    """Terms of PPO's clipped objective, at the action tokens; 0 elsewhere.

    With ratio ``s = pi(a) / pi_old(a)``::

        L = w max(-s A, -clip(s, 1 - clip_low, 1 + clip_high) A) + kl_coef KL

    and, with ``dual_clip = c``, where A < 0 the maximum is held below ``-c A``.
    The log-ratio is held within +-20.

    Args:
        logprobs: of the policy being trained.
        rollout: gives the action mask and the sampler's log-probabilities.
        advantages: A.
        old_logprobs: of the policy before the update, if the trainer computed
            them; default: the sampler's.
        weights: w, such as an off-policy correction's; default 1.
        reference_logprobs: for the KL term.
        kl_coef: its coefficient.
        kl_estimator: its estimator; see :func:`rlgraph.nodes.kl.estimate_kl`.
        clip_low: how far the ratio may fall below 1 before its gradient stops.
        clip_high: how far it may rise above 1; larger is DAPO's "clip-higher".
        dual_clip: c > 1; None turns it off.

    Raises:
        ValueError: ``dual_clip`` is not above 1, or ``kl_coef`` has no reference.

    Source: PPO (Schulman et al., 2017, arXiv:1707.06347, eq. 7); dual clip
    (Ye et al., 2020, arXiv:1912.09729, eq. 5); clip-higher (Yu et al., 2025,
    arXiv:2503.14476).
    """
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip is {dual_clip:g}; it must be above 1, or None to turn it off")
    mask = rollout.action_mask
    log_ratio = log_ratio_to_old(logprobs, rollout, old_logprobs)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    terms = -(ratio * advantages).minimum(clipped * advantages)
    log_policy(log_ratio, logprobs, mask)
    log_clipping(ratio, advantages, clip_low, clip_high, mask)
    if dual_clip is not None:
        bound = -dual_clip * advantages
        log("policy/clip_dual", (advantages < 0) & (terms > bound), mask)
        terms = terms.minimum(bound).where(advantages < 0, terms)
    if weights is not None:
        terms = terms * weights
    terms = terms + kl_term(logprobs, reference_logprobs, mask, kl_coef, kl_estimator)
    return terms.where(mask, 0.0)


def policy_gradient_loss(
    logprobs: Float[Tensor, "batch seq"],
    rollout: Rollout,
    advantages: Float[Tensor, "batch seq"],
    *,
    weights: Float[Tensor, "batch seq"] | None = None,
    reference_logprobs: Float[Tensor, "batch seq"] | None = None,
    kl_coef: float | Float[Tensor, ""] = 0.0,
    kl_estimator: Estimator = "k3",
) -> Float[Tensor, "batch seq"]:
    """Terms of the plain policy gradient, ``-w A log pi(a)``, plus ``kl_coef KL``.

    On-policy only: nothing accounts for rows that an earlier policy sampled,
    unless ``weights`` do. At the action tokens; 0 elsewhere. Arguments as for
    :func:`clipped_policy_loss`.

    Source: REINFORCE (Williams, 1992).
    """
    mask = rollout.action_mask
    log_policy(log_ratio_to_old(logprobs, rollout, None), logprobs, mask)
    terms = -advantages * logprobs
    if weights is not None:
        terms = terms * weights
    terms = terms + kl_term(logprobs, reference_logprobs, mask, kl_coef, kl_estimator)
    return terms.where(mask, 0.0)
