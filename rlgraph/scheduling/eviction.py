"""Who sleeps so that others fit: the choice with the fewest transitions.

Residents of one device set are like pages of different sizes in a small memory. With
pages of one size, dropping the one whose next use is furthest away is best (Belady,
1966). Sizes differ here, so the choice is searched for; Belady's rule breaks ties.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

from rlgraph.scheduling.memory import Memory

ASLEEP, WEIGHTS, AWAKE = range(3)
"""How much of a resident is on its devices."""

Levels = tuple[int, ...]
"""The level of each resident, in the order of their names."""

BEAM = 128
"""Different sets of awake residents that are followed at one point. The choice is the
best there is as long as no more can occur, which takes about eight residents to happen."""


@dataclass(frozen=True)
class Moves:
    """What has to happen before an action."""

    sleep: tuple[str, ...]
    wake: tuple[tuple[str, int], ...]
    """Names, and the level they come to."""


class Short(Exception):
    """What one action needs at the same time does not fit."""

    def __init__(self, position: int, missing: int) -> None:
        super().__init__(position, missing)
        self.position = position
        self.missing = missing
        """Bytes."""


class _Step(NamedTuple):
    cost: int
    """Transitions so far."""
    nearness: int
    """Of ways that cost alike, the one that drops what is needed later has the smaller."""
    before: Levels
    moves: Moves


def fewest_transitions(
    memory: Mapping[str, Memory],
    budget: int | None,
    levels: Mapping[str, int],
    needs: Sequence[Mapping[str, int]],
) -> list[Moves]:
    """The moves before each action, such that all of them together are the fewest.

    Args:
        memory: the residents of one device set.
        budget: bytes per device; None for no limit.
        levels: where each resident is at the beginning.
        needs: for each action, the residents it needs and at what level.

    Raises:
        Short: an action's needs do not fit beside the sleeping rest.
    """
    return _Search(memory, budget, needs).best(levels)


class _Search:
    def __init__(
        self, memory: Mapping[str, Memory], budget: int | None, needs: Sequence[Mapping[str, int]]
    ) -> None:
        self.names = sorted(memory)
        self.sizes = [memory[name].levels for name in self.names]
        self.budget = budget
        index = {name: number for number, name in enumerate(self.names)}
        self.needs = [{index[name]: level for name, level in need.items()} for need in needs]
        self.known: dict[tuple[tuple[tuple[int, int], ...], int], list[tuple[int, ...]]] = {}

    def best(self, levels: Mapping[str, int]) -> list[Moves]:
        start = tuple(levels[name] for name in self.names)
        layer = {start: _Step(0, 0, start, Moves((), ()))}
        layers = []
        for position in range(len(self.needs)):
            reached: dict[Levels, _Step] = {}
            for state, step in layer.items():
                for after, next_step in self.ways(position, state, step):
                    if after not in reached or next_step < reached[after]:
                        reached[after] = next_step
            if not reached:
                raise Short(position, self.shortfall(position))
            kept = sorted(reached.items(), key=lambda item: (item[1][:2], item[0]))[:BEAM]
            layer = dict(kept)
            layers.append(layer)
        found = []
        state = min(layer, key=lambda state: (layer[state][:2], state))
        for layer in reversed(layers):
            found.append(layer[state].moves)
            state = layer[state].before
        return found[::-1]

    def ways(self, position: int, state: Levels, step: _Step) -> list[tuple[Levels, _Step]]:
        """Every state that can follow, without putting anybody to sleep needlessly."""
        need = self.needs[position]
        found = []
        for levels in product(*(_choices(state[i], level) for i, level in need.items())):
            high = list(state)
            for i, level in zip(need, levels, strict=True):
                high[i] = level
            refitted = [i for i in need if high[i] < state[i]]
            rising = [i for i in need if high[i] > state[i]] + refitted
            for victims in self.victims(tuple(high), need):
                after = list(high)
                for i in victims:
                    after[i] = ASLEEP
                moves = Moves(
                    tuple(self.names[i] for i in (*victims, *refitted)),
                    tuple((self.names[i], high[i]) for i in rising),
                )
                cost = step.cost + len(moves.sleep) + len(moves.wake)
                far = sum(self.distance(i, position) for i in victims)
                found.append((tuple(after), _Step(cost, step.nearness - far, state, moves)))
        return found

    def victims(self, state: Levels, need: Mapping[int, int]) -> list[tuple[int, ...]]:
        """The smallest sets whose sleep makes room: of none, a member could stay awake."""
        if self.budget is None:
            return [()]
        short = sum(self.sizes[i][level] for i, level in enumerate(state)) - self.budget
        if short <= 0:
            return [()]
        gains = tuple(
            (i, self.sizes[i][level] - self.sizes[i][ASLEEP])
            for i, level in enumerate(state)
            if level > ASLEEP and i not in need
        )
        if (gains, short) not in self.known:
            self.known[gains, short] = _minimal(gains, short)
        return self.known[gains, short]

    def distance(self, resident: int, position: int) -> int:
        """How many actions lie before the next one that needs it."""
        later = range(position, len(self.needs))
        return next((at - position for at in later if resident in self.needs[at]), len(later))

    def shortfall(self, position: int) -> int:
        """Bytes that an action lacks with everyone else asleep."""
        need = self.needs[position]
        wanted = sum(size[need.get(i, ASLEEP)] for i, size in enumerate(self.sizes))
        return wanted - (self.budget or 0)


def _choices(now: int, wanted: int) -> list[int]:
    """The levels that a resident may have for an action that wants it at ``wanted``.

    Whoever has to rise to its weights may as well wake altogether, if there is room; and
    whoever is awake can make room by sleeping, to come back with its weights alone.
    """
    return sorted({now, wanted, AWAKE} & set(range(wanted, AWAKE + 1)))


def _minimal(gains: Sequence[tuple[int, int]], short: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for count in range(1, len(gains) + 1):
        for some in combinations(gains, count):
            chosen = tuple(i for i, _ in some)
            if sum(gain for _, gain in some) >= short and not any(
                set(smaller) <= set(chosen) for smaller in found
            ):
                found.append(chosen)
    return found
