"""From a head's raw outputs to what a loss asks for by name."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from rlgraph.training.backend import Head


@dataclass(frozen=True)
class Actions:
    """The action tokens of a micro-batch, and where the model speaks of them.

    The outputs at position ``t - 1`` speak of ``tokens[:, t]``.
    """

    tokens: Tensor
    """All tokens of the micro-batch, ``[batch seq]``."""
    mask: Tensor
    """Action tokens among them, ``[batch seq]``; never the first of a row."""

    @property
    def inputs(self) -> Tensor:
        """What the model has to read: nothing after the last token is needed."""
        return self.tokens[:, : max(1, self.tokens.shape[1] - 1)]

    @property
    def positions(self) -> Tensor:
        """Indices into the flattened :attr:`inputs`, in row order."""
        return self.mask[:, 1:].flatten().nonzero().squeeze(-1)

    @property
    def chosen(self) -> Tensor:
        """The action tokens themselves, in row order."""
        return self.tokens[self.mask]

    def spread(self, values: Tensor) -> Tensor:
        """One value an action token, back at its place in ``[batch seq]``, 0 elsewhere."""
        empty = torch.zeros(self.mask.shape, dtype=torch.float32, device=values.device)
        return empty.masked_scatter(self.mask, values)


def named_outputs(
    raw: Tensor, actions: Actions, head: Head, temperature: float, names: Collection[str]
) -> dict[str, Tensor]:
    """``logprobs``, ``entropy`` or ``values``, each ``[batch seq]`` float32, 0 off the mask.

    ``raw`` are the head's outputs at the actions' positions. Log-probabilities and
    entropy (in nats) are those of ``softmax(logits / temperature)``.
    """
    if head == "value":
        return {"values": actions.spread(raw.float().squeeze(-1))}
    logits = raw.float()
    if temperature != 1.0:
        logits = logits / temperature
    # log p = logit - logsumexp: no second tensor of vocabulary size is kept for it.
    normaliser = logits.logsumexp(-1)
    outputs = {}
    if "logprobs" in names:
        chosen = logits.gather(-1, actions.chosen.unsqueeze(-1)).squeeze(-1)
        outputs["logprobs"] = actions.spread(chosen - normaliser)
    if "entropy" in names:
        mean_logit = (logits.softmax(-1) * logits).sum(-1)
        outputs["entropy"] = actions.spread(normaliser - mean_logit)
    return outputs
