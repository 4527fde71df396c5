"""The checks that a call must pass to become a node, and their messages."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlgraph.errors import GraphError
from rlgraph.models import Handle, Resident
from rlgraph.ports import LossPorts, Port
from rlgraph.types import Array, Record, Role

if TYPE_CHECKING:
    from rlgraph.graph import Graph, Value

_CORE = Path(__file__).parent


def check_role(name: str, port: Port, given: Any, site: str) -> Handle:
    """Is ``given`` a model that plays the role that ``port`` asks for?"""
    if not isinstance(given, Handle):
        raise GraphError(
            f"{site}: {name}: '{port.name}' takes a {port}, got {type(given).__name__}"
        )
    if role_of(given, port) is None:
        plays = ", ".join(sorted(role.__name__ for role in given.roles))
        raise GraphError(
            f"{site}: {name}: '{port.name}' takes a {port}, but '{given.name}' is a "
            f"{type(given).__name__}, which can be: {plays}"
        )
    return given


def role_of(handle: Handle, port: Port) -> type | None:
    """The role of ``handle`` that ``port`` asks for, if it plays one."""
    wanted = {kind.role for kind in port.types if isinstance(kind, Role)}
    return next((role for role in handle.roles if role in wanted), None)


def play(handle: Handle, port: Port) -> Resident:
    """The resident that answers for the role of ``port``."""
    role = role_of(handle, port)
    assert role is not None, "checked when the node was recorded"
    return handle.roles[role]


def check_edge(graph: "Graph", name: str, port: Port, value: "Value", site: str) -> None:
    """Does ``value`` belong to this graph, and does its type fit?"""
    if value.node.graph is not graph:
        raise GraphError(
            f"{site}: {name}: '{port.name}' is given {value} of graph {value.node.graph.name}; "
            f"values cannot cross into graph {graph.name}"
        )
    if not port.is_data:
        raise GraphError(
            f"{site}: {name}: '{port.name}' takes {port}, a constant, but {value} is a graph value"
        )
    takes = (kind.takes(value.type) for kind in port.types if isinstance(kind, Array | Record))
    if not any(takes):
        hint = _hint(port, value)
        raise GraphError(
            f"{site}: {name}: '{port.name}' takes {port}, but {value} is {value.type}{hint}"
        )


def _hint(port: Port, value: "Value") -> str:
    """Fields of the value that would fit, if there are any."""
    if not isinstance(value.type, Record):
        return ""
    kinds = [kind for kind in port.types if isinstance(kind, Array)]
    fits = [
        f"{value}.{name}"
        for name, field_type in value.type.fields().items()
        if any(kind.takes(field_type) for kind in kinds)
    ]
    return f"; of its fields these fit: {', '.join(fits)}" if fits else ""


def check_loss(
    name: str,
    loss: Any,
    handle: Handle | None,
    inputs: Mapping[str, "Value"],
    constants: Mapping[str, Any],
    site: str,
) -> None:
    """Will every parameter of the loss be filled: by the model, the rows, or the call?"""
    ports = LossPorts.of(loss)
    offered = handle.outputs if handle else ()
    if missing := [output for output in ports.outputs if output not in offered]:
        raise GraphError(
            f"{site}: {name}: {loss.__name__} wants {', '.join(missing)}, but "
            f"'{handle.name if handle else '?'}' gives {', '.join(offered) or 'nothing'}"
        )
    given = {*inputs, *constants}
    if unfilled := [p for p, port in ports.inputs.items() if port.required and p not in given]:
        example = ", ".join(f"{p}=..." for p in unfilled)
        raise GraphError(f"{site}: {name}: {loss.__name__} also needs {example}")


def call_site() -> str:
    """``file:line`` of the innermost caller outside the core: the graph file's line."""
    frame = inspect.currentframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        inside = path.is_relative_to(_CORE) and path.relative_to(_CORE).parts[0] not in (
            "nodes",
            "graphs",
        )
        if not inside and path.suffix == ".py":
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"
