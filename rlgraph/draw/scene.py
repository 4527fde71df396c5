"""What is shown of a graph, whatever it is drawn with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlgraph.engines.protocols import Sampler, Trainer
from rlgraph.graph import Graph, Node, Value
from rlgraph.models import Resident
from rlgraph.types import Record, Role

NEXT_STEP = "next step's weights"
"""The label of the back edge from a policy's update to its sampling."""


@dataclass(frozen=True)
class Box:
    """A node: its name, its loss if it has one, and what it runs on."""

    name: str
    notes: tuple[str, ...]
    resident: Resident | None


@dataclass(frozen=True)
class Arrow:
    """Everything that goes from one node to another, a line of text for each wired port."""

    source: str
    target: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """Nodes in running order, their edges, and the edges back into the next step."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    back: tuple[Arrow, ...]

    @property
    def residents(self) -> tuple[Resident, ...]:
        """Each once, in the order of first use."""
        used = (box.resident for box in self.boxes if box.resident is not None)
        return tuple({resident.name: resident for resident in used}.values())


def scene_of(graph: Graph) -> Scene:
    """What to show of ``graph``.

    Raises:
        GraphError: the graph is empty or has a cycle.
    """
    nodes = graph.order()
    lines: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        for port, value in node.inputs.items():
            pair = lines.setdefault((value.node.name, node.name), [])
            if (line := _edge_text(node, port, value)) not in pair:
                pair.append(line)
    arrows = tuple(Arrow(source, target, tuple(text)) for (source, target), text in lines.items())
    back = tuple(
        Arrow(update.name, sampling.name, (NEXT_STEP,))
        for update in nodes
        for sampling in nodes
        if _plays(update, Trainer) and _plays(sampling, Sampler) and _same_model(update, sampling)
    )
    boxes = tuple(Box(node.name, _notes(node), node.resident) for node in nodes)
    return Scene(boxes, arrows, back)


def title(resident: Resident) -> str:
    """``policy.sampler (sampler)``; nothing is said twice."""
    return resident.name if resident.name == resident.kind else f"{resident.name} ({resident.kind})"


def _edge_text(node: Node, port: str, value: Value) -> str:
    """``Rollout``; ``group: Int[batch]``; ``scores → rewards: Float[batch]``."""
    if value.field is not None:
        arrow = "" if value.field == port else f" → {port}"
        return f"{value.field}{arrow}: {value.type}"
    # Which record is meant is plain, unless two of a kind go into one node.
    alike = sum(str(other.type) == str(value.type) for other in node.inputs.values())
    plain = isinstance(value.type, Record) and alike == 1
    return str(value.type) if plain else f"{port}: {value.type}"


def _notes(node: Node) -> tuple[str, ...]:
    loss: Callable[..., Any] | None = node.constants.get(node.function.forwards or "")
    return (getattr(loss, "__name__", str(loss)),) if loss is not None else ()


def _plays(node: Node, role: type) -> bool:
    port = node.function.role
    return port is not None and any(k.role is role for k in port.types if isinstance(k, Role))


def _same_model(one: Node, other: Node) -> bool:
    return one.handle is not None and other.handle is not None and one.handle == other.handle
