"""Calling a loss: its parameters are filled by name, its terms are checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorClass
from torch import Tensor

from rlgraph.engines.protocols import Loss, Sequences
from rlgraph.errors import EngineError
from rlgraph.ports import LossPorts, Port
from rlgraph.rows import resize
from rlgraph.training.backend import OUTPUTS, Head
from rlgraph.types import Array, Record


@dataclass(frozen=True)
class LossCall:
    """A loss with its rows and inputs, ready to be evaluated on some of the rows."""

    loss: Loss
    ports: LossPorts
    rows: Sequences
    inputs: Mapping[str, Any]

    @classmethod
    def of(cls, loss: Loss, rows: Sequences, inputs: Mapping[str, Any], head: Head) -> "LossCall":
        """Check that everything the loss asks for is there and fits the rows.

        Raises:
            EngineError: an input is missing, unknown, or of a wrong type or shape, or
                the loss asks for an output that this model does not have.
        """
        name, ports = _name(loss), LossPorts.of(loss)
        if foreign := [output for output in ports.outputs if output not in OUTPUTS[head]]:
            raise EngineError(
                f"loss {name} asks for {', '.join(foreign)}; this model has a {head} head, "
                f"which gives {' and '.join(OUTPUTS[head])}"
            )
        if not ports.outputs:
            raise EngineError(f"loss {name} uses no output of the model, so it has no gradient")
        required = [key for key, port in ports.inputs.items() if port.required]
        if missing := [key for key in required if key not in inputs]:
            raise EngineError(f"loss {name} needs {', '.join(missing)}; give it to update")
        if unknown := [key for key in inputs if key not in ports.inputs]:
            raise EngineError(f"loss {name} has no parameter {', '.join(unknown)}")
        sizes = {"batch": len(rows), "seq": rows.tokens.shape[1]}
        for key, value in inputs.items():
            port = ports.inputs[key]
            if fault := port.fault(value, dict(sizes)):
                raise EngineError(f"loss {name}, parameter {key}: expected {port}, {fault}")
        return cls(loss, ports, rows, inputs)

    def terms(self, outputs: Mapping[str, Tensor], index: Tensor, width: int) -> Tensor:
        """The loss's terms for the rows at ``index``, trimmed to ``width``.

        ``outputs`` are those of the forward pass, ``[len(index), width]``.

        Raises:
            EngineError: the terms are not one number a token or a row, or do not
                depend on the model.
        """
        device = next(iter(outputs.values())).device
        given: dict[str, Any] = {name: outputs[name] for name in self.ports.outputs}
        for key, value in self.inputs.items():
            given[key] = _cut(value, self.ports.inputs[key], index, width, device)
        if self.ports.rows:
            record = Record(type(self.rows))
            given[self.ports.rows] = resize(self.rows[index], record, width).to(device)
        terms = self.loss(**given)
        shape = (len(index), width)
        if not isinstance(terms, Tensor) or terms.shape not in (shape, shape[:1]):
            got = list(terms.shape) if isinstance(terms, Tensor) else type(terms).__name__
            raise EngineError(
                f"loss {_name(self.loss)} must return terms [batch seq] {list(shape)} or "
                f"[batch] {list(shape[:1])}, unreduced; it returned {got}"
            )
        if not terms.requires_grad:
            raise EngineError(
                f"the terms of loss {_name(self.loss)} do not depend on "
                f"{' or '.join(self.ports.outputs)}, so there is no gradient"
            )
        return terms


def _name(loss: Loss) -> str:
    return getattr(loss, "__name__", repr(loss))


def _cut(value: Any, port: Port, index: Tensor, width: int, device: torch.device) -> Any:
    """The rows at ``index`` of a batched value, trimmed; anything else as it is."""
    if not port.is_batched or not isinstance(value, Tensor | TensorClass):
        return value
    kinds = [kind for kind in port.types if isinstance(kind, Array | Record)]
    kind = next(kind for kind in kinds if kind.fault(value, {}) is None)
    if isinstance(value, Tensor) and isinstance(kind, Array):
        if "batch" in kind.dims:
            axis = kind.dims.index("batch")
            value = value.index_select(axis, index.to(value.device))
        return resize(value, kind, width).to(device)
    return resize(value[index], kind, width).to(device)
