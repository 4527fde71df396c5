"""Actions become events: each with what it has to wait for."""

from collections.abc import Mapping

from rlgraph.graph import Graph
from rlgraph.scheduling.eviction import ASLEEP, AWAKE, WEIGHTS
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.placement import Placement
from rlgraph.scheduling.plan import (
    HOST,
    WHOLE,
    Action,
    Event,
    Part,
    Run,
    Sleep,
    Wake,
    residents_of,
)


class Events:
    """The events of a plan in the making."""

    def __init__(
        self,
        graph: Graph,
        placement: Placement,
        memory: Mapping[str, Memory],
        awake: set[str],
    ) -> None:
        self.graph, self.placement, self.memory = graph, placement, memory
        self.levels = {name: AWAKE if name in awake else ASLEEP for name in placement.homes}
        self.list: list[Event] = []
        self.last_use: dict[str, int] = {}
        """The last event that concerned a resident."""
        self.last_busy: dict[str, int] = {}
        """The last event that occupied a device set: its tenants take turns."""
        self.ran: dict[tuple[str, bool], dict[Part, int]] = {}

    def add(self, action: Action) -> None:
        """Let an action follow: on its inputs, its residents, and its devices' last use."""
        residents = residents_of(action)
        homes = self.placement.homes
        places = tuple(sorted({homes[name] for name in residents if name in homes}))
        after = {self.last_use[name] for name in residents if name in self.last_use}
        after |= {self.last_busy[place] for place in places if place in self.last_busy}
        match action:
            case Run(node=name, part=part, ahead=ahead):
                for value in self.graph.nodes[name].inputs.values():
                    after |= self.sources(value.node.name, part, ahead)
                self.ran.setdefault((name, ahead), {})[part] = len(self.list)
            case Wake(resident=name, part=part_of_it):
                self.levels[name] = WEIGHTS if part_of_it == "weights" else AWAKE
            case Sleep(resident=name):
                self.levels[name] = ASLEEP
        for name in residents:
            self.last_use[name] = len(self.list)
        for place in places:
            self.last_busy[place] = len(self.list)
        held = {place: self.held(place) for place in places}
        self.list.append(Event(action, tuple(sorted(after)), places or (HOST,), held))

    def sources(self, node: str, part: Part, ahead: bool) -> set[int]:
        """The runs that give a node's rows; of a batch sampled a step ago, none."""
        runs = self.ran.get((node, ahead), {})
        return {runs[part]} if part in runs and part != WHOLE else set(runs.values())

    def held(self, home: str) -> int:
        """Bytes on each device of a set, as things stand."""
        tenants = [name for name in self.placement.tenants(home) if name in self.memory]
        return sum(self.memory[name].levels[self.levels[name]] for name in tenants)
