"""Reading a ``trace.json``: Chrome's trace events, as a JSON array with one event a line.

The closing bracket may be missing, as the format allows: a run that was killed leaves
none, and perhaps half a line.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlgraph.errors import RlgraphError

Key = tuple[str, str, str, bool]
"""Category, name, part and whether it works ahead: events of one key should last alike."""


@dataclass(frozen=True)
class Done:
    """An event that took place."""

    kind: str
    """run, sync, sleep or wake."""
    name: str
    """The node's, or the resident's that is synced, sleeps or wakes."""
    begin: int
    """Microseconds, as is ``end``."""
    end: int
    number: int | None
    """In the plan of its round; None if the trace does not tell."""
    after: tuple[int, ...]
    """The numbers of those that it waited for."""
    part: str
    ahead: bool
    held: Mapping[str, int]
    """Bytes per device afterwards, by device set."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end - self.begin) / 1e6

    @property
    def key(self) -> Key:
        """What it has in common with its like in other steps."""
        return self.kind, self.name, self.part, self.ahead


@dataclass
class Step:
    """What a step did."""

    run: int
    """How often the run had been resumed by then."""
    rounds: dict[int, list[Done]] = field(default_factory=dict)
    lanes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Microseconds by device and category; those of a device add up to the step."""

    @property
    def seconds(self) -> float:
        """From the first event's begin to the last one's end."""
        events = [done for events in self.rounds.values() for done in events]
        return (max(done.end for done in events) - min(done.begin for done in events)) / 1e6


def read_lines(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Each event, and how many bytes of the file there are up to its end.

    Raises:
        RlgraphError: the file is no trace, or is broken before its last line.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if (start := file.readline()).strip() != b"[":
            raise RlgraphError(f"{path} is no trace: its first line is not '[' alone")
        begin = len(start)
        for number, line in enumerate(file, 2):
            text = line.rstrip().removesuffix(b",")
            if text and text != b"]":
                event = _parsed(text)
                if event is None:
                    if file.read(1):
                        raise RlgraphError(f"{path}:{number} is no trace event: {text[:60]!r}")
                    return
                yield event, begin + len(text)
            begin += len(line)


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def read_steps(path: Path) -> list[Step]:
    """The steps in order; of one that a resumed run did again, the later version.

    Raises:
        RlgraphError: the file is no trace of a run, is broken, or holds no step.
        OSError: it cannot be read.
    """
    steps: dict[int, Step] = {}
    lanes: dict[int, str] = {}
    seen: set[Any] = set()
    for event, _ in read_lines(path):
        try:
            if event["ph"] == "M" and event["name"] == "thread_name":
                lanes[event["tid"]] = event["args"]["name"]
            elif event["ph"] == "X":
                _take(event, lanes[event["tid"]], steps, seen)
        except (KeyError, TypeError, ValueError) as error:
            raise RlgraphError(
                f"{path}: an event is not as a run writes it ({error!r}): {str(event)[:200]}"
            ) from None
    done = [step for _, step in sorted(steps.items()) if step.rounds]
    if not done:
        raise RlgraphError(f"{path}: the run did no step")
    return done


def _take(event: dict[str, Any], lane: str, steps: dict[int, Step], seen: set[Any]) -> None:
    """Add an event to its step, once, and to the time of each device that it occupies."""
    args, kind, duration = event["args"], str(event["cat"]), int(event["dur"])
    number, run = int(args["step"]), int(args["run"])
    step = steps.setdefault(number, Step(run))
    if step.run < run:
        step = steps[number] = Step(run)
    if lane.split("/")[0] != "host":
        times = step.lanes.setdefault(lane, {})
        times[kind] = times.get(kind, 0) + duration
    if kind == "idle":
        return
    name = str(args["node"] if kind == "run" else args["resident"])
    part, ahead = str(args.get("part", "")), bool(args.get("ahead", False))
    # One that occupies several devices has an event in the lane of each.
    identity = (run, number, args["round"], kind, name, part, ahead, event["ts"], duration)
    if identity in seen:
        return
    seen.add(identity)
    begin = int(event["ts"])
    after = tuple(map(int, args.get("after", ())))
    done = Done(
        kind, name, begin, begin + duration, args.get("number"), after, part, ahead,
        args.get("held", {}),
    )  # fmt: skip
    step.rounds.setdefault(int(args["round"]), []).append(done)
