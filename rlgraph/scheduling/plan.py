"""The plan: what runs where and in what order, as data.

Made by :mod:`rlgraph.scheduling.planner` without starting anything. Executors obey
it; they decide nothing themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rlgraph.graph import Graph
from rlgraph.scheduling.placement import Placement

HOST = "host"
"""Where everything is done that needs no device."""


@dataclass(frozen=True, order=True)
class Part:
    """One of ``of`` equal shares of the rows that go into a node."""

    number: int = 0
    of: int = 1

    def __str__(self) -> str:
        return "" if self.of == 1 else f"{self.number + 1}/{self.of}"


WHOLE = Part()


@dataclass(frozen=True)
class Run:
    """A node is executed, on all its rows or a part of them."""

    node: str
    resident: str | None
    """What it runs on; None for a pure function, which runs on the host."""
    part: Part = WHOLE
    ahead: bool = False
    """Does it work on the next step's batch?"""


@dataclass(frozen=True)
class Wake:
    """A resident comes back to its devices."""

    resident: str
    part: Literal["all", "weights"] = "all"
    """A sampler may take back its weights first, to be synced beside the trainer's."""


@dataclass(frozen=True)
class Sleep:
    """A resident leaves its devices to others."""

    resident: str
    discard: bool = False
    """Need its weights not be kept, since a sync comes before their next use?"""


@dataclass(frozen=True)
class SyncWeights:
    """A sampler takes over a trainer's weights."""

    trainer: str
    sampler: str


Action = Run | Wake | Sleep | SyncWeights


def label(action: Action) -> str:
    """A short name, for messages and timings: a node's own, or ``sync policy.sampler``."""
    match action:
        case Run(node=name):
            return name
        case SyncWeights(sampler=name):
            return f"sync {name}"
        case Wake(resident=name):
            return f"wake {name}"
        case Sleep(resident=name):
            return f"sleep {name}"


def residents_of(action: Action) -> tuple[str, ...]:
    """Who takes part in an action."""
    if isinstance(action, SyncWeights):
        return (action.trainer, action.sampler)
    return (action.resident,) if action.resident else ()


@dataclass(frozen=True)
class Event:
    """An action and the earlier events that must have ended before it starts."""

    action: Action
    after: tuple[int, ...]
    places: tuple[str, ...]
    """The device sets it occupies, or only ``host``."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Bytes on each device of those sets once it has ended."""


@dataclass(frozen=True)
class Plan:
    """One step of a graph."""

    graph: Graph
    placement: Placement
    events: tuple[Event, ...]
    awake: frozenset[str]
    """Who is awake at the end; the next step's plan starts from there."""

    @property
    def transitions(self) -> int:
        """How often somebody falls asleep or wakes."""
        return sum(isinstance(event.action, Sleep | Wake) for event in self.events)
