"""From a graph, a placement and a memory table to the plan of one step."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rlgraph.errors import PlacementError
from rlgraph.graph import Graph, Node
from rlgraph.scheduling.events import Events
from rlgraph.scheduling.eviction import AWAKE, WEIGHTS, Moves, Short, fewest_transitions
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.parts import divisible
from rlgraph.scheduling.placement import Placement
from rlgraph.scheduling.plan import (
    Action,
    Part,
    Plan,
    Run,
    Sleep,
    SyncWeights,
    Wake,
    residents_of,
)
from rlgraph.scheduling.shortage import shortage

FORESIGHT = 3
"""Steps that are looked at, this one included, to see who had best sleep."""


@dataclass(frozen=True)
class Pace:
    """How the work of neighbouring steps may overlap."""

    parts: int = 1
    """Parts that rows are sampled in; the next nodes start on the first when it is there."""
    waiting: bool = False
    """Has the step before sampled this step's batch already?"""
    ahead: bool = False
    """Is the next step's batch sampled while this one is trained on?"""


def plan_step(
    graph: Graph,
    placement: Placement,
    memory: Mapping[str, Memory],
    awake: Iterable[str] = (),
    pace: Pace | None = None,
) -> Plan:
    """The events of one step, given who is awake at its beginning.

    If everything fits, nothing ever sleeps. Otherwise those sleep whose sleep makes
    the transitions of this step and the next few the fewest.

    Raises:
        GraphError: the graph is empty or has a cycle.
        PlacementError: what one action needs at the same time does not fit, or a step
            is to be sampled ahead on devices that training needs.
    """
    pace = pace or Pace()
    actions = list(_actions(graph, placement, pace))
    if pace.ahead:
        _check_ahead(actions, placement)
    events = Events(graph, placement, memory, set(awake))
    moves = _moves(actions, placement, memory, events.levels)
    for position, action in enumerate(actions):
        for home in sorted(moves):
            for name in moves[home][position].sleep:
                events.add(Sleep(name, discard=name in _followers(actions)))
            for name, level in moves[home][position].wake:
                events.add(Wake(name, "weights" if level == WEIGHTS else "all"))
        events.add(action)
    stays = {name for name, level in events.levels.items() if level == AWAKE}
    return Plan(graph, placement, tuple(events.list), frozenset(stays))


def _actions(graph: Graph, placement: Placement, pace: Pace) -> Iterator[Action]:
    """The runs in order; a sampler is brought up to date before its first.

    Always, and not only after an update: so the first step of a resumed run
    cannot sample from the weights that the sampler was started with.
    """
    nodes, synced = graph.order(), set[str]()
    if not (pace.waiting or pace.ahead):
        yield from _runs(nodes, placement, synced, pace.parts)
        return
    names = _front(graph)
    front = [node for node in nodes if node.name in names]
    back = [node for node in nodes if node.name not in names]
    if not pace.waiting:
        yield from _runs(front, placement, synced)
    if pace.ahead:
        yield from _runs(front, placement, synced, ahead=True)
    # Its rows are all there when the step begins: nothing is gained from parts.
    yield from _runs(back, placement, synced)


def _runs(
    nodes: list[Node], placement: Placement, synced: set[str], parts: int = 1, ahead: bool = False
) -> Iterator[Action]:
    divided = divisible(nodes, placement) if parts > 1 else set()
    for node in nodes:
        resident = node.resident
        # A run that only samples has no trainer to take weights from.
        if resident and resident.follows in placement.homes and resident.name not in synced:
            assert resident.follows is not None
            synced.add(resident.name)
            yield SyncWeights(resident.follows, resident.name)
        count = parts if node.name in divided else 1
        for number in range(count):
            yield Run(node.name, resident.name if resident else None, Part(number, count), ahead)


def _front(graph: Graph) -> set[str]:
    """What can be done before anything is trained: sampling, and what it needs."""
    sampling = [n for n in graph.nodes.values() if n.resident and n.resident.kind == "sampler"]
    front = {node.name for node in sampling}
    for node in sampling:
        front |= graph.ancestors(node.name)
    return front


def _check_ahead(actions: list[Action], placement: Placement) -> None:
    ahead = {a.resident for a in actions if isinstance(a, Run) and a.ahead and a.resident}
    now = {a.resident for a in actions if isinstance(a, Run) and not a.ahead and a.resident}
    for name in sorted(ahead & set(placement.homes)):
        home = placement.homes[name]
        if rivals := [r for r in placement.tenants(home) if r in now and r != name]:
            raise PlacementError(
                f"--staleness 1 samples the next batch while this one is trained on, but "
                f"{name} shares device set '{home}' with {', '.join(rivals)}; use --placement "
                "split or group, or --staleness 0"
            )


def _followers(actions: list[Action]) -> set[str]:
    return {action.sampler for action in actions if isinstance(action, SyncWeights)}


def _moves(
    actions: list[Action],
    placement: Placement,
    memory: Mapping[str, Memory],
    levels: Mapping[str, int],
) -> dict[str, list[Moves]]:
    """For each device set, who sleeps and wakes before each action."""
    found = {}
    for home in placement.sets:
        tenants = placement.tenants(home)
        needs = [
            {name: _level(action, name) for name in residents_of(action) if name in tenants}
            for action in actions
        ]
        table = {name: memory.get(name, Memory(0)) for name in tenants}
        budget = placement.devices.memory
        try:
            found[home] = fewest_transitions(
                table, budget, {name: levels[name] for name in tenants}, needs * FORESIGHT
            )[: len(actions)]
        except Short as short:
            position = short.position % len(actions)
            action = actions[position]
            levels = {name: _level(action, name) for name in needs[position]}
            raise shortage(action, levels, home, table, placement, short.missing) from None
    return found


def _level(action: Action, name: str) -> int:
    """A sampler is synced with its KV cache still asleep, if there is no room for it."""
    return WEIGHTS if isinstance(action, SyncWeights) and name == action.sampler else AWAKE
