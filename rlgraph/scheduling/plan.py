"""The plan: what runs where and in what order, as data.

A plan is made from a graph, a placement and a memory table, without starting
anything. Executors obey it; they decide nothing themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rlgraph.errors import PlacementError
from rlgraph.graph import Graph, Node
from rlgraph.memory import Memory
from rlgraph.models import Policy
from rlgraph.placement import Placement


@dataclass(frozen=True)
class Run:
    """A node is executed."""

    node: str
    resident: str | None
    """What it runs on; None for a pure function, which runs on the host."""


@dataclass(frozen=True)
class Wake:
    """A resident comes back to its devices."""

    resident: str


@dataclass(frozen=True)
class Sleep:
    """A resident leaves its devices to others."""

    resident: str


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


@dataclass(frozen=True)
class Event:
    """An action and the earlier events that must have ended before it starts."""

    action: Action
    after: tuple[int, ...]
    place: str
    """The device set it occupies, or ``host``."""
    memory: int
    """Bytes held on each device of that set once it has ended."""


@dataclass(frozen=True)
class Plan:
    """One step of a graph."""

    graph: Graph
    placement: Placement
    events: tuple[Event, ...]
    awake: frozenset[str]
    """Who is awake at the end; the next step's plan starts from there."""


def plan_step(
    graph: Graph,
    placement: Placement,
    memory: Mapping[str, Memory],
    awake: Iterable[str] = (),
) -> Plan:
    """The events of one step, given who is awake at its beginning.

    Where a device set cannot hold everyone, the resident whose next use is
    furthest away sleeps, counting on into the next step, and only if its space
    is needed (Belady, 1966).

    Raises:
        GraphError: the graph is empty or has a cycle.
        PlacementError: what one action needs at the same time does not fit.
    """
    return _Planner(graph, placement, memory, set(awake)).plan()


class _Planner:
    def __init__(
        self,
        graph: Graph,
        placement: Placement,
        memory: Mapping[str, Memory],
        awake: set[str],
    ) -> None:
        self.graph, self.placement, self.memory, self.awake = graph, placement, memory, awake
        self.events: list[Event] = []
        self.last_use: dict[str, int] = {}
        """The last event that concerned a resident."""
        self.last_busy: dict[str, int] = {}
        """The last event that occupied a device set: its tenants take turns."""
        self.ran: dict[str, int] = {}

    def plan(self) -> Plan:
        nodes = self.graph.order()
        actions = list(_actions(nodes, self.placement))
        for position, action in enumerate(actions):
            needed = _residents(action)
            later = actions[position + 1 :] + actions[: position + 1]
            for resident in needed:
                if self.placement.home(resident) and resident not in self.awake:
                    self.make_room(resident, needed, later)
                    self.add(Wake(resident))
            self.add(action)
        return Plan(self.graph, self.placement, tuple(self.events), frozenset(self.awake))

    def make_room(self, resident: str, needed: tuple[str, ...], later: list[Action]) -> None:
        home = self.placement.homes[resident]
        budget = self.placement.devices.memory
        tenants = self.placement.tenants(home)
        extra = self.memory[resident].awake - self.memory[resident].asleep
        while budget is not None and (used := self.held(home)) + extra > budget:
            victims = [name for name in tenants if name in self.awake and name not in needed]
            if not victims:
                raise PlacementError(
                    f"{resident} needs {_gib(extra)} on device set '{home}', beside {_gib(used)} "
                    f"of {', '.join(set(needed) - {resident}) or 'sleeping residents'}, but a "
                    f"device has {_gib(budget)}; it is short of {_gib(used + extra - budget)}"
                )
            self.add(Sleep(max(victims, key=lambda name: (_distance(name, later), name))))

    def held(self, home: str) -> int:
        """Bytes on each device of a set, as things stand."""
        return sum(
            self.memory[name].awake if name in self.awake else self.memory[name].asleep
            for name in self.placement.tenants(home)
        )

    def add(self, action: Action) -> None:
        residents = _residents(action)
        places = sorted({self.placement.homes[r] for r in residents if r in self.placement.homes})
        after = {self.last_use[name] for name in residents if name in self.last_use}
        after |= {self.last_busy[place] for place in places if place in self.last_busy}
        if isinstance(action, Run):
            inputs = self.graph.nodes[action.node].inputs.values()
            after |= {self.ran[value.node.name] for value in inputs}
            self.ran[action.node] = len(self.events)
        elif isinstance(action, Wake):
            self.awake.add(action.resident)
        elif isinstance(action, Sleep):
            self.awake.discard(action.resident)
        for name in residents:
            self.last_use[name] = len(self.events)
        for place in places:
            self.last_busy[place] = len(self.events)
        place = places[-1] if places else "host"
        held = self.held(place) if places else 0
        self.events.append(Event(action, tuple(sorted(after)), place, held))


def _actions(nodes: list[Node], placement: Placement) -> Iterator[Action]:
    """The runs in order; a sampler is brought up to date before its first.

    Always, and not only after an update: so the first step of a resumed run
    cannot sample from the weights that the sampler was started with.
    """
    synced = set()
    for node in nodes:
        resident = node.resident
        if resident and resident.kind == "sampler" and isinstance(node.handle, Policy):
            trainer = node.handle.trainer.name
            # A run that only samples has no trainer to take weights from.
            if resident.name not in synced and trainer in placement.homes:
                yield SyncWeights(trainer, resident.name)
            synced.add(resident.name)
        yield Run(node.name, resident.name if resident else None)


def _residents(action: Action) -> tuple[str, ...]:
    if isinstance(action, SyncWeights):
        return (action.trainer, action.sampler)
    return (action.resident,) if action.resident else ()


def _distance(resident: str, later: list[Action]) -> int:
    """How many actions lie before the next one that needs ``resident``."""
    uses = (index for index, action in enumerate(later) if resident in _residents(action))
    return next(uses, len(later))


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
