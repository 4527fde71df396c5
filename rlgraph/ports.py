"""Ports: the typed parameters of a node or a loss."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlgraph.errors import GraphError
from rlgraph.types import Array, PortType, Record, Role, alternatives, describe, hints_of

OUTPUTS = ("logprobs", "entropy", "values")
"""What a forward pass can offer to a loss, by parameter name."""


@dataclass(frozen=True)
class Port:
    """A parameter of a node."""

    name: str
    types: tuple[PortType, ...]
    required: bool

    def __str__(self) -> str:
        return describe(self.types)

    @property
    def is_role(self) -> bool:
        """Does a model go here?"""
        return isinstance(self.types[0], Role)

    @property
    def is_data(self) -> bool:
        """Can an edge end here?"""
        return any(isinstance(kind, Array | Record) for kind in self.types)

    @property
    def is_batched(self) -> bool:
        """Is what goes here cut along with the rows?"""
        return any(
            isinstance(kind, Record) or (isinstance(kind, Array) and "batch" in kind.dims)
            for kind in self.types
        )

    def fault(self, value: Any, sizes: dict[str, int]) -> str | None:
        """What is wrong with ``value`` here, if anything."""
        faults = [kind.fault(value, sizes) for kind in self.types if not isinstance(kind, Role)]
        return None if not faults or None in faults else faults[0]


def where(function: Callable[..., Any]) -> str:
    """``file:line`` of a function, for messages."""
    code = inspect.unwrap(function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def ports_of(function: Callable[..., Any]) -> dict[str, Port]:
    """The ports of a function, by parameter name, ``*args`` and ``**kwargs`` left out.

    Raises:
        GraphError: a parameter has no annotation.
    """
    hints = hints_of(function)
    ports = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name not in hints:
            raise GraphError(
                f"{where(function)}: parameter '{name}' of {function.__name__} has no annotation; "
                'give it a type, such as Float[Tensor, "batch seq"]'
            )
        required = parameter.default is parameter.empty
        ports[name] = Port(name, alternatives(hints[name]), required)
    return ports


def result_of(function: Callable[..., Any]) -> Array | Record | None:
    """The type of what a function returns; None if it returns nothing.

    Raises:
        GraphError: there is no return annotation, or it cannot travel along an edge.
    """
    hints = hints_of(function)
    kinds = alternatives(hints["return"]) if "return" in hints else ()
    if len(kinds) == 1 and isinstance(kinds[0], Array | Record):
        return kinds[0]
    if hints.get("return") is type(None):
        return None
    raise GraphError(
        f"{where(function)}: {function.__name__} must say what it returns: one array, "
        f"one record, or None; it says {describe(kinds) or 'nothing'}"
    )


@dataclass(frozen=True)
class LossPorts:
    """How a loss's parameters are filled.

    ``outputs`` come from the model's forward pass, ``rows`` names the parameter
    that takes the rows, and ``inputs`` are what ``update`` has to be given.
    """

    outputs: tuple[str, ...]
    rows: str | None
    inputs: Mapping[str, Port]

    @classmethod
    def of(cls, loss: Callable[..., Any]) -> "LossPorts":
        """Read them off the loss's signature.

        Raises:
            GraphError: a parameter has no annotation.
        """
        ports = ports_of(loss)
        rows = [name for name, port in ports.items() if isinstance(port.types[0], Record)]
        outputs = tuple(name for name in ports if name in OUTPUTS)
        named = {*outputs, *rows[:1]}
        inputs = {name: port for name, port in ports.items() if name not in named}
        return cls(outputs, rows[0] if rows else None, inputs)
