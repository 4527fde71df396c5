"""What the training maths asks of an engine, and of its ranks."""

from typing import Literal, Protocol

import torch
from torch import Tensor

from rlgraph.engines.protocols import Ranks

Head = Literal["lm", "value"]
"""What stands on top of the transformer: logits over tokens, or one number."""

OUTPUTS: dict[Head, tuple[str, ...]] = {"lm": ("logprobs", "entropy"), "value": ("values",)}
"""What a loss may ask of a model, by its head."""


class Alone:
    """The ranks of a trainer that is one process."""

    rank = 0
    world_size = 1

    def sum(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def max(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values


class Forward(Protocol):
    """A model that can be run over right-padded rows."""

    @property
    def device(self) -> torch.device:
        """Where its inputs must lie."""
        ...

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Head outputs ``[positions, vocabulary or 1]`` at some positions of ``[batch seq]``.

        ``positions`` are indices into the flattened tokens. Rows are padded on the
        right, so causal attention needs no mask.
        """
        ...


class Backend(Forward, Protocol):
    """One rank of an engine that holds trainable weights."""

    @property
    def ranks(self) -> Ranks:
        """The other ranks."""
        ...

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add the gradients of ``loss``; they are summed over ranks, not averaged.

        Every rank calls this equally often before :meth:`step`, and says which
        call is the ``last``.
        """
        ...

    def step(self, learning_rate: float) -> float:
        """Clip, move the weights, forget the gradients; the gradients' global norm.

        If that norm is not finite, the weights stay as they are on all ranks.
        """
        ...
