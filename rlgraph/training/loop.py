"""The optimizer steps of one update: epochs, minibatches, micro-batches, ranks."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlgraph import metrics
from rlgraph.engines.protocols import Aggregation, Loss, Sequences
from rlgraph.errors import EngineError
from rlgraph.settings import RunContext, TrainerConfig
from rlgraph.training.aggregation import Normaliser
from rlgraph.training.backend import Backend, Head
from rlgraph.training.contract import LossCall
from rlgraph.training.outputs import named_outputs
from rlgraph.training.packing import MicroBatch, plan, row_lengths
from rlgraph.training.schedule import learning_rate
from rlgraph.training.scoring import actions_of, check_rows

AREAS: dict[Head, str] = {"lm": "policy", "value": "critic"}
"""Under which name the metrics of a head are logged."""


@dataclass(frozen=True)
class TrainingLoop:
    """How a backend's weights are trained; it keeps no state of its own."""

    backend: Backend
    head: Head
    config: TrainerConfig
    context: RunContext
    temperature: float
    budget: int
    """Padded tokens in one forward pass."""

    def update(
        self,
        version: int,
        loss: Loss,
        rows: Sequences,
        inputs: Mapping[str, Any],
        *,
        epochs: int,
        minibatches: int,
        aggregation: Aggregation,
        constant_length: int | None,
    ) -> None:
        """The ``version``-th update: ``epochs * minibatches`` optimizer steps over ``rows``.

        Every rank is given all rows and takes its share of each minibatch. Rows
        without an action token are left out and counted. Fewer acting rows than
        ``minibatches`` make fewer steps, never an empty one.

        Raises:
            EngineError: no row has an action token, or the loss and its inputs don't fit.
        """
        if epochs < 1 or minibatches < 1:
            raise EngineError(f"epochs={epochs}, minibatches={minibatches}: both must be positive")
        check_rows(rows)
        call = LossCall.of(loss, rows, inputs, self.head)
        acting = rows.action_mask.any(-1).nonzero().squeeze(-1)
        if not len(acting):
            raise EngineError(
                f"nothing to train on: none of {len(rows)} rows has an action token; "
                "did a filter remove them all?"
            )
        lengths = row_lengths(rows.attention_mask)
        total = self.context.steps * epochs * minibatches
        first = version * epochs * minibatches
        for number, batch in enumerate(self._batches(acting, version, epochs, minibatches)):
            normaliser = Normaliser.of(rows.action_mask[batch], aggregation, constant_length)
            shares = plan(batch.tolist(), lengths, self.budget, self.backend.ranks.world_size)
            rate = learning_rate(self.config, first + number, total)
            self._step(call, shares[self.backend.ranks.rank], normaliser, rate)
            self._log("tokens", float(sum(lengths[row] for row in batch.tolist())), kind="sum")
        self._log("rows_without_action", float(len(rows) - len(acting)), kind="sum")

    def _batches(
        self, acting: Tensor, version: int, epochs: int, minibatches: int
    ) -> Iterator[Tensor]:
        """Row numbers of each optimizer batch: a new shuffle each epoch, alike on all ranks."""
        seed = (self.context.seed * 1_000_003 + version) % 2**63
        generator = torch.Generator().manual_seed(seed)
        for _ in range(epochs):
            order = torch.randperm(len(acting), generator=generator)
            yield from acting.cpu()[order].tensor_split(min(minibatches, len(acting)))

    def _step(
        self, call: LossCall, batches: list[MicroBatch], normaliser: Normaliser, rate: float
    ) -> None:
        """One optimizer step over this rank's micro-batches."""
        loss = torch.zeros((), device=self.backend.device)
        for number, batch in enumerate(batches):
            part = self._part(call, batch, normaliser)
            loss += part.detach()
            # A part that is not finite must spoil the gradients' norm, on whichever
            # rank and whatever its derivative: that norm decides for all ranks alike.
            spoiler = torch.where(part.detach().isfinite(), 1.0, math.nan)
            self.backend.backward(part * spoiler, last=number == len(batches) - 1)
        norm = self.backend.step(rate)
        loss = self.backend.ranks.sum(loss)
        skipped = not math.isfinite(norm)
        self._log("skipped_steps", float(skipped), kind="sum")
        if not skipped:
            self._log("loss", loss)
            self._log("grad_norm", norm)
            self._log("learning_rate", rate)

    def _part(self, call: LossCall, batch: MicroBatch, normaliser: Normaliser) -> Tensor:
        """A micro-batch's part of the loss; 0, but with a gradient, if it is empty."""
        actions = actions_of(call.rows, batch, self.backend.device)
        raw = self.backend.forward(actions.inputs, actions.positions)
        if not batch.rows:
            return raw.float().sum()
        outputs = named_outputs(raw, actions, self.head, self.temperature, call.ports.outputs)
        terms = call.terms(outputs, torch.tensor(batch.rows), batch.width)
        return normaliser.reduce(terms, actions.mask)

    def _log(self, what: str, value: Tensor | float, kind: metrics.Kind = "mean") -> None:
        """Log what all ranks know alike: on the first only, so that it counts once."""
        if self.backend.ranks.rank == 0:
            metrics.log(f"{AREAS[self.head]}/{what}", value, kind=kind)
