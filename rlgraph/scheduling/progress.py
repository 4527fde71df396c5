"""Going through a plan: what starts when, on whatever clock."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rlgraph.scheduling.plan import Event, Plan


@dataclass(frozen=True)
class Span:
    """When an event took place, in seconds."""

    event: Event
    begin: float
    end: float


def drive(
    plan: Plan,
    start: Callable[[int, Event], bool],
    wait: Callable[[], Iterable[int]],
) -> None:
    """Start every event as soon as all that it depends on have ended.

    Args:
        plan: what to go through.
        start: sets an event off, by its number; False if there is nothing to wait for.
        wait: gives the numbers of events that have ended, at least one, after as long
            as that takes.
    """
    ended, running = set[int](), set[int]()
    waiting = dict(enumerate(plan.events))
    while waiting or running:
        ready = [index for index, event in waiting.items() if ended.issuperset(event.after)]
        for index in ready:
            (running if start(index, waiting.pop(index)) else ended).add(index)
        # What has ended at once may have made others ready.
        if running and not any(ended.issuperset(event.after) for event in waiting.values()):
            done = set(wait())
            ended |= done
            running -= done


def simulate(plan: Plan, seconds: Callable[[Event], float]) -> list[Span]:
    """Go through a plan on a clock that nobody waits for; events in the order they end."""
    now = 0.0
    running: list[tuple[float, int, float]] = []
    spans = []

    def start(index: int, event: Event) -> bool:
        heapq.heappush(running, (now + seconds(event), index, now))
        return True

    def wait() -> list[int]:
        nonlocal now
        now, index, began = heapq.heappop(running)
        spans.append(Span(plan.events[index], began, now))
        return [index]

    drive(plan, start, wait)
    return spans
