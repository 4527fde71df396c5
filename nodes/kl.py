"""Estimators of the KL divergence between two policies, from sampled tokens."""

import math
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from rlgraph import Split, node
from rlgraph.metrics import log

Estimator = Literal["k1", "k2", "k3"]

_CLAMPS = {"k1": (math.inf, math.inf), "k2": (math.inf, math.inf), "k3": (20.0, 10.0)}


def estimate_kl(
    log_ratio: Float[Tensor, "*shape"],
    estimator: Estimator = "k3",
    *,
    clamp_input: float | None = None,
    clamp_output: float | None = None,
) -> Float[Tensor, "*shape"]:
    """KL(p || q) of each token, from ``r = log p - log q`` of tokens sampled from p.

    ``k1 = r``; ``k2 = r**2 / 2``; ``k3 = exp(-r) - 1 + r``. k1 and k3 are unbiased,
    k2 and k3 are never negative.

    Args:
        log_ratio: r.
        estimator: which one.
        clamp_input: r is first held within plus or minus this. None: 20 for k3,
            whose exponential would overflow; no clamp for k1 and k2. ``math.inf``
            turns it off.
        clamp_output: likewise for the result. None: 10 for k3, else no clamp.

    Source: Schulman, "Approximating KL Divergence" (2020).

    >>> from torch import tensor
    >>> estimate_kl(tensor([0.0, 1.0, -1.0]), "k3")
    tensor([0.0000, 0.3679, 0.7183])
    """
    default_input, default_output = _CLAMPS[estimator]
    within = default_input if clamp_input is None else clamp_input
    r = log_ratio.clamp(-within, within)
    match estimator:
        case "k1":
            kl = r
        case "k2":
            kl = r**2 / 2
        case "k3":
            # expm1 keeps the digits that exp(-r) - 1 loses near r = 0.
            kl = (-r).expm1() + r
    within = default_output if clamp_output is None else clamp_output
    return kl.clamp(-within, within)


@node(split=Split.ROWS)
def token_kl(
    logprobs: Float[Tensor, "batch seq"],
    reference_logprobs: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    estimator: Estimator = "k1",
    clamp_input: float | None = None,
    clamp_output: float | None = None,
) -> Float[Tensor, "batch seq"]:
    """KL of the policy from the reference at each action token; 0 elsewhere.

    Args:
        logprobs: the policy's; ``rollout.logprobs``, or a ``logprobs`` node's.
        reference_logprobs: the reference's.
        action_mask: which tokens the policy chose.
        estimator: see :func:`estimate_kl`, as for the clamps.
        clamp_input: see :func:`estimate_kl`.
        clamp_output: see :func:`estimate_kl`.
    """
    log_ratio = (logprobs - reference_logprobs).where(action_mask, 0.0)
    kl = estimate_kl(log_ratio, estimator, clamp_input=clamp_input, clamp_output=clamp_output)
    log("kl/reference", kl, action_mask)
    return kl
