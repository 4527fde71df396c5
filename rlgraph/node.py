"""``@node``: a typed function that runs on tensors and is recorded on graph values."""

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, overload

from torch import Tensor

from rlgraph.errors import GraphError
from rlgraph.graph import Value, record
from rlgraph.models import Handle
from rlgraph.ports import LossPorts, Port, ports_of, result_of, where
from rlgraph.types import Array


class Split(Enum):
    """How a node's rows may be shared out over workers."""

    ROWS = "rows"
    """Anywhere: each row stands for itself."""
    GROUPS = "groups"
    """Only between groups: a group's rows are seen together."""
    NEVER = "never"
    """Not at all: the node needs the whole batch."""


class NodeFunction:
    """A function with typed ports; made by :func:`node`."""

    __name__: str

    def __init__(self, function: Callable[..., Any], split: Split, forwards: str | None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.split = split
        self.forwards = forwards
        """The parameter that names a loss; further keyword arguments are the loss's."""
        self.signature = inspect.signature(function)
        self.ports = ports_of(function)
        self.result = result_of(function)
        roles = [name for name, port in self.ports.items() if port.is_role]
        if len(roles) > 1:
            raise GraphError(
                f"{where(function)}: {self.__name__} asks for {len(roles)} models "
                f"({', '.join(roles)}); a node runs where one model lives, so make it two nodes"
            )
        self.role = self.ports[roles[0]] if roles else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on tensors, or be recorded if any argument is a graph value or a handle.

        Raises:
            GraphError: recorded, and the wiring does not fit.
            TypeError: run, and an argument or the result does not fit its annotation.
        """
        if any(isinstance(given, Value | Handle) for given in (*args, *kwargs.values())):
            return record(self, args, kwargs)
        return self.run(self.bind(args, kwargs))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All given arguments by name, those for the loss among them."""
        bound = self.signature.bind(*args, **kwargs).arguments
        named: dict[str, Any] = {}
        for name, value in bound.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named

    def ports_for(self, arguments: Mapping[str, Any]) -> Mapping[str, Port]:
        """This call's ports: the node's own, and those of the loss it forwards to."""
        if self.forwards is None or self.forwards not in arguments:
            return self.ports
        return {**LossPorts.of(arguments[self.forwards]).inputs, **self.ports}

    def run(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function; tensors and records are held against their annotations."""
        ports = self.ports_for(arguments)
        sizes: dict[str, int] = {}
        # A node that sees everything may compare batches: its records can differ in rows.
        together = self.split is not Split.NEVER
        for name, value in arguments.items():
            port = ports.get(name)
            if port is None:
                raise TypeError(f"{self.__name__} has no port '{name}'; it has {', '.join(ports)}")
            bound = sizes if together or isinstance(value, Tensor) else {}
            if port.is_data and (fault := port.fault(value, bound)):
                raise TypeError(f"{self.__name__}: '{name}' takes {port}, {fault}")
        result = self.function(**arguments)
        # An array speaks of the rows that came in; a record may bring rows of its own.
        known = sizes if isinstance(self.result, Array) else {}
        if self.result is not None and (fault := self.result.fault(result, known)):
            raise TypeError(f"{self.__name__} returns {self.result}, {fault}")
        return result


@overload
def node(function: Callable[..., Any], /) -> NodeFunction: ...
@overload
def node(
    *, split: Split = ..., forwards: str | None = ...
) -> Callable[[Callable[..., Any]], NodeFunction]: ...
def node(
    function: Callable[..., Any] | None = None,
    /,
    *,
    split: Split = Split.NEVER,
    forwards: str | None = None,
) -> NodeFunction | Callable[[Callable[..., Any]], NodeFunction]:
    """Make a function usable as a node.

    Args:
        function: every parameter and the result annotated.
        split: how its rows may be shared out over workers. The default is safe
            for any function; say more to let it run on several.
        forwards: the parameter that takes a loss, if further keyword arguments
            are meant for that loss. They are typed by the loss's signature.

    Raises:
        GraphError: an annotation is missing, or two models are asked for.

    >>> from jaxtyping import Float
    >>> from torch import Tensor, tensor
    >>> @node(split=Split.ROWS)
    ... def halve(rewards: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    ...     return rewards / 2
    >>> halve(tensor([1.0, 3.0]))
    tensor([0.5000, 1.5000])
    """
    if function is not None:
        return NodeFunction(function, split, forwards)
    return lambda wrapped: NodeFunction(wrapped, split, forwards)
