"""Off-policy correction: the sampler and the trainer disagree on log-probabilities.

They run different kernels, often in different precision, so rows are never
sampled from exactly the policy that is trained. Truncated importance weights
take most of the bias away at little variance.
"""

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from rlgraph import Split, node
from rlgraph.metrics import log

_LIMIT = 20.0


@node(split=Split.ROWS)
def importance_weights(
    trainer_logprobs: Float[Tensor, "batch seq"],
    sampler_logprobs: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    level: Literal["token", "sequence", "geometric"] = "token",
    mode: Literal["truncate", "mask"] = "truncate",
    low: float = 0.0,
    high: float = 2.0,
) -> Float[Tensor, "batch seq"]:
    """Weights that correct a loss for rows sampled by a slightly different policy.

    With ``d_t = log pi_trainer(a_t) - log pi_sampler(a_t)`` at the action tokens,
    the raw weight of token t is

    - ``token``: ``exp(d_t)``;
    - ``sequence``: ``exp(sum_t d_t)``, the same at each of the row's tokens;
    - ``geometric``: ``exp(mean_t d_t)``, likewise.

    ``truncate`` caps it at ``high``. ``mask`` keeps it if it lies in
    ``[low, high]`` and makes it 0 otherwise. Exponents are held within +-20.
    Weights carry no gradient and are 0 outside ``action_mask``.

    Args:
        trainer_logprobs: from a ``logprobs`` node of the policy, before its update.
        sampler_logprobs: ``rollout.logprobs``.
        action_mask: which tokens the policy chose.
        level: what is weighed as one.
        mode: what happens to weights out of range.
        low: the smallest weight that ``mask`` lets pass.
        high: the largest weight.

    Raises:
        ValueError: ``low`` is given to ``truncate``, or exceeds ``high``.

    Source: truncated importance sampling (Ionides, 2008); for this gap, Yao et
    al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL
    Training" (2025). Masking tokens: "IcePop" (Ling Team, 2025, arXiv:2510.18855).
    """
    if mode == "truncate" and low != 0:
        raise ValueError(f"low is {low:g}, but mode='truncate' only caps; use mode='mask'")
    if not 0 <= low <= high:
        raise ValueError(f"need 0 <= low <= high, got low {low:g} and high {high:g}")
    log_mismatch(trainer_logprobs, sampler_logprobs, action_mask)
    gap = (trainer_logprobs - sampler_logprobs).detach().where(action_mask, 0.0)
    if level != "token":
        total = gap.sum(-1, keepdim=True)
        count = action_mask.sum(-1, keepdim=True).clamp(min=1)
        gap = (total if level == "sequence" else total / count).expand_as(gap)
    raw = gap.clamp(-_LIMIT, _LIMIT).exp()
    outside = (raw > high) | (raw < low)
    log("correction/out_of_range", outside, action_mask)
    weights = raw.clamp(max=high) if mode == "truncate" else raw.where(~outside, 0.0)
    log("correction/weight", weights, action_mask)
    return weights.where(action_mask, 0.0)


def log_mismatch(
    trainer_logprobs: Float[Tensor, "batch seq"],
    sampler_logprobs: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
) -> None:
    """Log the gap between trainer and sampler: its mean, and how heavy its tail is."""
    gap = (trainer_logprobs - sampler_logprobs).detach().where(action_mask, 0.0)
    size = gap.abs()
    log("mismatch/mean", size, action_mask)
    log("mismatch/max", size, action_mask, kind="max")
    log("mismatch/over_0.1", size > 0.1, action_mask)
    log("mismatch/over_1", size > 1, action_mask)
    # KL(sampler || trainer): the tokens come from the sampler.
    ratio = gap.clamp(-_LIMIT, _LIMIT)
    log("mismatch/kl", ratio.expm1() - ratio, action_mask)
    log("mismatch/row_max", gap.sum(-1).abs(), kind="max")
