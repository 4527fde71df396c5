"""What all trainers do alike; an engine adds the backend."""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor

from rlgraph.engines.protocols import Aggregation, Loss, Ranks, Sequences
from rlgraph.engines.sleep import Holdings, Sleepable
from rlgraph.settings import PolicyConfig, RunContext
from rlgraph.training.backend import Alone, Backend, Forward, Head
from rlgraph.training.loop import TrainingLoop
from rlgraph.training.packing import CPU_TOKENS
from rlgraph.training.scoring import score


class FrozenModel(Sleepable):
    """A model that is run over rows: a scorer, or a value model, by its head."""

    def __init__(
        self,
        model: Forward,
        head: Head,
        policy: PolicyConfig,
        context: RunContext,
        ranks: Ranks,
    ) -> None:
        self.head = head
        self.policy = policy
        self._model = model
        self._in_step = ranks
        name = f"the {type(self).__name__} of '{policy.path}'"
        self._holdings = Holdings(name, model, device=model.device, scratch=context.scratch)
        on_cpu = model.device.type == "cpu"
        limit = policy.max_tokens_per_micro_batch
        self._budget = min(limit, CPU_TOKENS) if on_cpu else limit

    def logprobs(self, rows: Sequences) -> Float[Tensor, "batch seq"]:
        """Log-probability of each action token at the policy's temperature; float32, else 0.

        Raises:
            EngineError: asleep, the model has a value head, or the rows are malformed.
        """
        return self._score(rows, "logprobs")

    def values(self, rows: Sequences) -> Float[Tensor, "batch seq"]:
        """The state value before each action token is chosen; float32, else 0.

        Raises:
            EngineError: asleep, the model has a language-model head, or the rows are
                malformed.
        """
        return self._score(rows, "values")

    def _score(self, rows: Sequences, output: str) -> Tensor:
        self._holdings.require_awake(output)
        return score(
            self._model,
            rows,
            head=self.head,
            output=output,
            temperature=self.policy.temperature,
            budget=self._budget,
            ranks=self._in_step,
        )


class Learner(FrozenModel):
    """A model that is trained; every rank of an engine holds one."""

    def __init__(
        self,
        backend: Backend,
        head: Head,
        policy: PolicyConfig,
        context: RunContext,
        *,
        sharded: bool = False,
    ) -> None:
        """``sharded``: ranks hold parts of the weights, so all run each forward pass."""
        super().__init__(backend, head, policy, context, backend.ranks if sharded else Alone())
        self.version = 0
        """Updates so far."""
        self._loop = TrainingLoop(
            backend,
            head,
            policy.trainer,
            context,
            policy.temperature,
            self._budget,
        )

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
        """One update. Every rank calls it with all rows, see :class:`TrainingLoop`."""
        self._holdings.require_awake("train")
        self._loop.update(
            self.version,
            loss,
            rows,
            inputs,
            epochs=epochs,
            minibatches=minibatches,
            aggregation=aggregation,
            constant_length=constant_length,
        )
        self.version += 1
