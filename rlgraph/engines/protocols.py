"""What a node may ask of a model: the roles that engines play.

A node names the role it needs in its signature (``policy: Sampler``). In a
graph that port takes a model handle; when the node runs, it gets the engine
that holds the model's weights. A test passes any object with these methods.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from rlgraph.records import Prompts, Rewards, Rollout, Sequences

Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-sum-constant"]
"""How a loss's terms become one number, always over the global optimizer batch."""

Loss = Callable[..., Tensor]
"""A function that gives a loss's unreduced terms, ``[batch seq]`` or ``[batch]``.

Its parameters are filled by name: ``logprobs``, ``entropy`` or ``values`` by the
model's forward pass, the one annotated with a record by the rows, the rest by
the keyword arguments of ``update``.
"""


@dataclass(frozen=True)
class Weights:
    """A model's full parameters, under the names of its Hugging Face checkpoint.

    ``tensors`` are CPU tensors in the trainer's dtype, safe to read until it
    trains or sleeps. ``version`` is the number of updates behind them.
    """

    version: int
    tensors: Mapping[str, Tensor]


@runtime_checkable
class Sampler(Protocol):
    """Samples responses, and says with which log-probabilities."""

    def generate(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
    ) -> Rollout:
        """``samples`` rows a prompt, a prompt's rows side by side, in prompt order.

        None means the engine's own setting. ``temperature=0`` is greedy.
        """
        ...

    def load_weights(self, weights: Weights) -> None:
        """Take over a trainer's weights; what is sampled next comes from them."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Runs a language model over given rows."""

    def logprobs(self, rows: Sequences) -> Float[Tensor, "batch seq"]:
        """Log-probability of each action token, temperature applied; float32, else 0."""
        ...


@runtime_checkable
class ValueModel(Protocol):
    """Runs a model with a scalar head over given rows."""

    def values(self, rows: Sequences) -> Float[Tensor, "batch seq"]:
        """The state value before each action token is chosen; float32, else 0."""
        ...


@runtime_checkable
class Trainer(Protocol):
    """Holds trainable weights and their optimizer."""

    def train(
        self,
        loss: Loss,
        rows: Sequences,
        inputs: Mapping[str, Any],
        *,
        epochs: int = 1,
        minibatches: int = 1,
        aggregation: Aggregation = "token-mean",
        constant_length: int | None = None,
    ) -> None:
        """``epochs * minibatches`` optimizer steps over ``rows``.

        ``inputs`` are the loss's remaining arguments: tensors with a leading
        batch dimension are cut along with the rows, everything else is passed
        as it is. Metrics go to :func:`rlgraph.metrics.log`.
        """
        ...

    def weights(self) -> Weights:
        """The current parameters, gathered from all ranks."""
        ...

    def save(self, folder: str) -> None:
        """Write the model in Hugging Face format (safetensors, tokenizer included)."""
        ...


@runtime_checkable
class Rewarder(Protocol):
    """Scores finished rollouts."""

    def score(self, rollout: Rollout) -> Rewards:
        """One reward a row; a row whose scorer fails is invalid, never 0."""
        ...


@runtime_checkable
class PromptStream(Protocol):
    """Draws prompts from a data set, epoch after epoch, and remembers where it is."""

    def take(self, count: int) -> Prompts:
        """The next ``count`` prompts, fewer only if the whole data set is smaller."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where it is: what a checkpoint keeps."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        ...


@runtime_checkable
class Sleeper(Protocol):
    """An engine whose memory can be given to others for a while."""

    @property
    def asleep(self) -> bool:
        """Is memory given back, so that nothing can be computed?"""
        ...

    @property
    def bytes_held(self) -> int:
        """Bytes per device that weights, gradients, optimizer and caches hold now, measured."""
        ...

    def sleep(self) -> None:
        """Give the memory back, once running work is done; if that fails, stay awake."""
        ...

    def wake(self) -> None:
        """Take it again, and go on as if nothing had been; if that fails, stay asleep."""
        ...


class Ranks(Protocol):
    """The other ranks of a trainer: what data-parallel maths needs of them."""

    rank: int
    world_size: int

    def sum(self, values: Tensor) -> Tensor:
        """Element-wise sum over all ranks; the same result on each."""
        ...

    def max(self, values: Tensor) -> Tensor:
        """Element-wise maximum over all ranks; the same result on each."""
        ...
