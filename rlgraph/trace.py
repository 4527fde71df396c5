"""What a run did when, as a trace that Perfetto and chrome://tracing open.

The format is Chrome's "Trace Event Format", in its array form.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from rlgraph.lanes import device_lanes, gaps, stacked
from rlgraph.models import Resident
from rlgraph.scheduling.placement import Placement, devices_of
from rlgraph.scheduling.plan import (
    HOST,
    Event,
    Plan,
    Run,
    Sleep,
    SyncWeights,
    Wake,
    label,
    residents_of,
)
from rlgraph.scheduling.progress import Span
from rlgraph.tracefile import read_lines


class Trace:
    """A file with one lane per device, written as the run goes on.

    Lanes are called after the device set, ``NAME/0`` and so on if it has several
    devices; what is done on the host has lanes ``host``, ``host/1`` and so on, as many
    as there are events at the same time. Times are microseconds from the first event.
    If there is a file already, events are appended, after the end of the last.
    """

    def __init__(
        self, path: Path, placement: Placement, residents: Mapping[str, Resident] | None = None
    ) -> None:
        """``residents`` tell how many devices of its set each uses; without them, all."""
        self.path = path
        self.placement = placement
        self._used = {name: devices_of(resident) for name, resident in (residents or {}).items()}
        self._lanes: dict[str, int] = {}
        self._held: dict[str, int] = {}
        self._start = 0
        """Microseconds at which this run's first event begins."""
        self._zero: float | None = None
        """The clock's seconds then."""
        self._run = 0
        """How often the run had been resumed when it did something."""

    def __enter__(self) -> Self:
        """Open the file.

        Raises:
            RlgraphError: the file that is there is no trace.
        """
        if self.path.exists() and self.path.stat().st_size:
            self._file, self._empty = self._reopened()
        else:
            self._file, self._empty = self.path.open("w", encoding="utf-8"), True
            self._file.write("[\n")
        for name, devices in self.placement.sets.items():
            for lane in device_lanes(name, devices.devices):
                self._lane(lane)
        self._file.flush()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.write("\n]\n")
        self._file.close()

    def step(self, step: int, spans: Sequence[Span], plans: Sequence[Plan] = ()) -> None:
        """Add what a step did, and flush.

        Args:
            step: its number.
            spans: when each event took place, round by round.
            plans: those of the rounds, which number the events; without them nothing
                tells afterwards what an event had to wait for.
        """
        if not spans:
            return
        if self._zero is None:
            self._zero = min(span.begin for span in spans)
        busy: dict[str, list[tuple[int, int]]] = {lane: [] for lane in self._device_lanes()}
        common = {"step": step, "run": self._run}
        for span, lanes, numbered in zip(
            spans, self._occupied(spans), _numbered(spans, plans), strict=True
        ):
            args = common | numbered | _said(span.event)
            begin, end = self._time(span.begin), self._time(span.end)
            for lane in lanes:
                self._complete(lane, _name(span.event), _category(span.event), begin, end, args)
                if lane in busy:
                    busy[lane].append((begin, end))
            for home, held in span.event.held.items():
                if self._held.get(home) != held:
                    self._held[home] = held
                    self._counter(f"held {home}", end, held)
        first = self._time(min(span.begin for span in spans))
        last = self._time(max(span.end for span in spans))
        for lane, intervals in busy.items():
            for begin, end in gaps(intervals, first, last):
                self._complete(lane, "idle", "idle", begin, end, common)
        self._file.flush()

    def _device_lanes(self) -> Iterator[str]:
        for name, devices in self.placement.sets.items():
            yield from device_lanes(name, devices.devices)

    def _occupied(self, spans: Sequence[Span]) -> Iterator[tuple[str, ...]]:
        """The lanes of each event."""
        rows = iter(stacked([span for span in spans if span.event.places == (HOST,)]))
        for span in spans:
            if span.event.places != (HOST,):
                yield self._devices(span.event)
            else:
                row = next(rows)
                yield (f"{HOST}/{row}" if row else HOST,)

    def _devices(self, event: Event) -> tuple[str, ...]:
        """Of each set, the first devices, as many as the residents use that take part."""
        found: list[str] = []
        for place in event.places:
            count = self.placement.sets[place].devices
            names = [n for n in residents_of(event.action) if self.placement.homes.get(n) == place]
            used = max((self._used.get(name, count) for name in names), default=count)
            found += device_lanes(place, count)[:used]
        return tuple(found)

    def _complete(
        self, lane: str, name: str, category: str, begin: int, end: int, args: Mapping[str, Any]
    ) -> None:
        self._write(
            {"ph": "X", "name": name, "cat": category, "pid": 0, "tid": self._lane(lane)}
            | {"ts": begin, "dur": end - begin, "args": args}
        )

    def _counter(self, name: str, at: int, held: int) -> None:
        self._write({"ph": "C", "name": name, "pid": 0, "ts": at, "args": {"bytes": held}})

    def _time(self, seconds: float) -> int:
        """Rounded once for all uses: where one event ends the next begins."""
        assert self._zero is not None
        return self._start + round((seconds - self._zero) * 1e6)

    def _lane(self, name: str) -> int:
        """Its number in the file, where it is described at its first use."""
        if name not in self._lanes:
            number = self._lanes[name] = len(self._lanes)
            host = name.split("/")[0] == HOST
            told = {"thread_name": {"name": name}, "thread_sort_index": {"sort_index": number}}
            if host:
                # Below all devices, also those that a resumed run brings.
                told["thread_sort_index"] = {"sort_index": 10**6 + number}
            for key, args in told.items():
                self._write({"ph": "M", "name": key, "pid": 0, "tid": number, "args": args})
        return self._lanes[name]

    def _write(self, event: Mapping[str, Any]) -> None:
        text = json.dumps(event, separators=(",", ":"))
        self._file.write(text if self._empty else ",\n" + text)
        self._empty = False

    def _reopened(self) -> tuple[TextIO, bool]:
        """The file of an earlier run, without what closes it or was cut off."""
        size = 0
        for event, end in read_lines(self.path):
            size = end
            if event.get("name") == "thread_name":
                self._lanes[event["args"]["name"]] = event["tid"]
            if event.get("ph") == "X":
                self._start = max(self._start, event["ts"] + event["dur"])
                self._run = event["args"]["run"] + 1
        file = self.path.open("r+", encoding="utf-8")
        file.truncate(size)
        file.seek(size)
        if not size:
            file.write("[\n")
        return file, not size


def _numbered(spans: Sequence[Span], plans: Sequence[Plan]) -> Iterator[dict[str, Any]]:
    """Each span's round, its number in that round's plan, and the numbers it waits for."""
    rounds = iter(enumerate(plans))
    numbers: dict[int, int] = {}
    seen: set[int] = set()
    happened = {id(span.event) for span in spans}
    for span in spans:
        if not plans:
            yield {"round": 0}
            continue
        while id(span.event) not in numbers or id(span.event) in seen:
            turn, plan = next(rounds)
            numbers = {id(event): number for number, event in enumerate(plan.events)}
            seen = set()
        seen.add(id(span.event))
        number = numbers[id(span.event)]
        after = _after(plan.events, number, happened)
        yield {"round": turn, "number": number, "after": after}


def _after(events: Sequence[Event], number: int, happened: set[int]) -> list[int]:
    """What an event waited for; of one that was left out, what that would have waited for."""
    found = set[int]()
    ahead = list(events[number].after)
    while ahead:
        earlier = ahead.pop()
        if id(events[earlier]) in happened:
            found.add(earlier)
        else:
            ahead += events[earlier].after
    return sorted(found)


def _category(event: Event) -> str:
    return {Run: "run", SyncWeights: "sync", Sleep: "sleep", Wake: "wake"}[type(event.action)]


def _name(event: Event) -> str:
    match event.action:
        case Run(node=node, part=part, ahead=ahead):
            return f"{node} {part}".rstrip() + (" (next step)" if ahead else "")
        case action:
            return label(action)


def _said(event: Event) -> dict[str, Any]:
    """An action's own details."""
    held = {"held": dict(event.held)} if event.held else {}
    match event.action:
        case Run(node=node, resident=resident, part=part, ahead=ahead):
            said = {"node": node, "resident": resident, "part": str(part), "ahead": ahead}
        case SyncWeights(trainer=trainer, sampler=sampler):
            said = {"trainer": trainer, "resident": sampler}
        case Wake(resident=resident, part=what):
            said = {"resident": resident, "part": what}
        case Sleep(resident=resident, discard=discard):
            said = {"resident": resident, "discard": discard}
    return said | held
