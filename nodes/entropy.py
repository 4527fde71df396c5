"""An entropy bonus for any policy loss."""

import functools
import inspect
from typing import Any, get_type_hints

from jaxtyping import Float
from torch import Tensor

from rlgraph.engines.protocols import Loss
from rlgraph.metrics import log
from rlgraph.ports import LossPorts


def with_entropy_bonus(loss: Loss) -> Loss:
    """The same loss minus ``entropy_coef`` times the policy's entropy at each action token.

    Entropy costs a pass over the whole vocabulary, so only a loss that is
    wrapped like this asks the model for it::

        update(policy, with_entropy_bonus(clipped_policy_loss), rollout,
               advantages=advantages, entropy_coef=0.01)

    For a loss with one term a row, the row's mean entropy is taken. The exact
    entropy is logged as ``policy/entropy``.

    Raises:
        TypeError: the loss has no parameter for the rows, or knows entropy already.
    """
    ports = LossPorts.of(loss)
    if ports.rows is None or "entropy" in ports.outputs:
        fault = "no parameter that takes a Rollout" if ports.rows is None else "an entropy already"
        raise TypeError(f"{loss.__name__} has {fault}, so no entropy bonus can be added to it")
    rows = ports.rows

    @functools.wraps(loss)
    def with_bonus(*, entropy: Tensor, entropy_coef: float, **arguments: Any) -> Tensor:
        mask = arguments[rows].action_mask
        log("policy/entropy", entropy, mask)
        bonus = (entropy_coef * entropy).where(mask, 0.0)
        terms = loss(**arguments)
        if terms.dim() == 1:
            bonus = bonus.sum(-1) / mask.sum(-1).clamp(min=1)
        return terms - bonus

    added = {"entropy": Float[Tensor, "batch seq"], "entropy_coef": float}
    signature = inspect.signature(loss)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(p.replace(kind=keyword) for p in signature.parameters.values()),
        *(inspect.Parameter(name, keyword, annotation=hint) for name, hint in added.items()),
    ]
    with_bonus.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_bonus.__annotations__ = {**get_type_hints(loss), **added}
    with_bonus.__name__ = f"{loss.__name__}_with_entropy_bonus"
    return with_bonus
