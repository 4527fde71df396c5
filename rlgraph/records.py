"""The records that travel along edges: prompts, rollouts, rewards.

Every field is a tensor whose first dimension is the row, or a list with one
entry a row. Sequences are right-padded. Padding is 0 in every field, and
whatever lies under a mask of False is 0 and stays 0.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from tensordict import TensorClass
from torch import Tensor

Columns = list[dict[str, Any]]
"""One dict a row: the data set's own columns (``prompt``, ``answer``, ...)."""


class Prompts(TensorClass):
    """Tokenised prompts, one a row.

    ``group`` is unique to each drawn prompt for the whole run, so a prompt
    that is drawn again in a later epoch gets a new id.
    """

    tokens: Int[Tensor, "batch seq"]
    attention_mask: Bool[Tensor, "batch seq"]
    group: Int[Tensor, " batch"]
    columns: Columns


class Sequences(TensorClass):
    """Token rows that a model can be run over.

    ``action_mask`` marks the tokens that a loss speaks of: for a rollout those
    that the policy sampled, its end-of-sequence token included.
    """

    tokens: Int[Tensor, "batch seq"]
    attention_mask: Bool[Tensor, "batch seq"]
    action_mask: Bool[Tensor, "batch seq"]


class Rollout(Sequences):
    """What the policy answered: prompt and response contiguous in each row.

    ``logprobs`` are the sampler's own, of the distribution it sampled from
    (temperature applied), float32, at the action tokens; 0 elsewhere.
    """

    logprobs: Float[Tensor, "batch seq"]
    group: Int[Tensor, " batch"]
    truncated: Bool[Tensor, " batch"]
    policy_version: Int[Tensor, " batch"]
    response: list[str]
    columns: Columns


class Rewards(TensorClass):
    """One score a row; 0 where ``valid`` is False because the scorer failed."""

    scores: Float[Tensor, " batch"]
    valid: Bool[Tensor, " batch"]

    @classmethod
    def of(cls, scores: Tensor | list[float]) -> "Rewards":
        """Rewards from plain numbers; a non-finite one counts as invalid.

        >>> Rewards.of([1.0, float("nan")]).valid.tolist()
        [True, False]
        """
        given = torch.as_tensor(scores, dtype=torch.float32)
        valid = torch.isfinite(given)
        return cls(scores=given.where(valid, 0.0), valid=valid, batch_size=[len(given)])
