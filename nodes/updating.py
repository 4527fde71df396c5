"""Training a model on a loss."""

from typing import Any

from jaxtyping import Bool
from torch import Tensor

from rlgraph import node
from rlgraph.engines.protocols import Aggregation, Loss, Trainer
from rlgraph.records import Sequences


@node(forwards="loss")
def update(
    model: Trainer,
    loss: Loss,
    rows: Sequences,
    *,
    when: Bool[Tensor, ""] | None = None,
    epochs: int = 1,
    minibatches: int = 1,
    aggregation: Aggregation = "token-mean",
    constant_length: int | None = None,
    **inputs: Any,
) -> None:
    """Take ``epochs * minibatches`` optimizer steps on ``loss`` over ``rows``.

    Args:
        model: whose weights move.
        loss: a function that gives unreduced terms; see ``docs/algorithms.md``.
        rows: the rows that the model runs over.
        when: False leaves the model as it is in this step.
        epochs: passes over all rows.
        minibatches: optimizer steps a pass.
        aggregation: how terms become one number, over each optimizer step's rows
            on all ranks together.
        constant_length: the divisor of ``seq-sum-constant``.
        inputs: the loss's other arguments, by name, cut along with the rows.
    """
    if when is not None and not when:
        return
    model.train(
        loss,
        rows,
        inputs,
        epochs=epochs,
        minibatches=minibatches,
        aggregation=aggregation,
        constant_length=constant_length,
    )
