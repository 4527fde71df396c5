"""``python -m rlgraph.report RUN_DIR``: where a run's time went, from its ``trace.json``."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rlgraph.errors import RlgraphError
from rlgraph.tracefile import Done, Key, Step, read_steps

KINDS = ("run", "sync", "sleep", "wake")


@dataclass(frozen=True)
class Row:
    """One kind of event: a node, the sync of a sampler, a resident's sleep."""

    kind: str
    name: str
    count: float
    """Median number of such events in a step."""
    seconds: float
    """Median of one event."""
    share: float
    """Of the steps' time during which one was under way, on average; 0 to 1."""


@dataclass(frozen=True)
class Report:
    """What is told of a run. Times in seconds; medians over its steps."""

    steps: int
    measured: float
    """A step, from its first event's begin to its last one's end."""
    planned: float | None
    """A step whose events last as long as they usually do, and wait only for what the plan
    says; None if the trace does not tell the plan."""
    rows: tuple[Row, ...]
    devices: Mapping[str, Mapping[str, float]]
    """Shares of the steps' time by device and category; each device's add up to 1."""
    held: Mapping[str, int]
    """The most bytes held on a device of each set."""
    sleeps: float
    wakes: float

    @property
    def overhead(self) -> float | None:
        """What a step takes beyond its plan."""
        return None if self.planned is None else self.measured - self.planned


def summarise(steps: Sequence[Step]) -> Report:
    """All figures of a run that did these steps, at least one."""
    durations: dict[Key, list[float]] = defaultdict(list)
    for done in _all(steps):
        durations[done.key].append(done.seconds)
    usual = {key: median(values) for key, values in durations.items()}
    numbered = all(done.number is not None for done in _all(steps))
    planned = median(planned_seconds(step, usual) for step in steps) if numbered else None
    total = sum(step.seconds for step in steps)
    held: dict[str, int] = {}
    for done in _all(steps):
        for home, size in done.held.items():
            held[home] = max(held.get(home, 0), size)
    return Report(
        steps=len(steps),
        measured=median(step.seconds for step in steps),
        planned=planned,
        rows=tuple(_rows(steps, total)),
        devices=_devices(steps, total),
        held=held,
        sleeps=_per_step(steps, lambda done: done.kind == "sleep"),
        wakes=_per_step(steps, lambda done: done.kind == "wake"),
    )


def planned_seconds(step: Step, usual: Mapping[Key, float]) -> float:
    """How long a step takes if each event begins once all that it waits for have ended."""
    total = 0.0
    for events in step.rounds.values():
        ends: dict[int, float] = {}
        # A plan's events wait for earlier ones only.
        for done in sorted(events, key=lambda done: done.number or 0):
            ready = max((ends[number] for number in done.after), default=0.0)
            ends[done.number or 0] = ready + usual[done.key]
        total += max(ends.values(), default=0.0)
    return total


def _all(steps: Iterable[Step]) -> Iterable[Done]:
    return (done for step in steps for events in step.rounds.values() for done in events)


def _per_step(steps: Sequence[Step], wanted: Callable[[Done], bool]) -> float:
    return median(sum(map(wanted, _all([step]))) for step in steps)


def _rows(steps: Sequence[Step], total: float) -> Iterable[Row]:
    named: dict[tuple[str, str], list[Done]] = {}
    for done in _all(steps):
        named.setdefault((done.kind, done.name), []).append(done)
    for (kind, name), events in sorted(named.items(), key=lambda item: KINDS.index(item[0][0])):

        def same(done: Done, kind: str = kind, name: str = name) -> bool:
            return (done.kind, done.name) == (kind, name)

        share = sum(_covered([d for d in _all([step]) if same(d)]) for step in steps)
        yield Row(
            kind,
            name,
            _per_step(steps, same),
            median(done.seconds for done in events),
            share / total if total else 0.0,
        )


def _covered(events: Sequence[Done]) -> float:
    """Seconds during which at least one of the events is under way."""
    covered, until = 0, 0
    for done in sorted(events, key=lambda done: done.begin):
        covered += max(0, done.end - max(done.begin, until))
        until = max(until, done.end)
    return covered / 1e6


def _devices(steps: Sequence[Step], total: float) -> dict[str, dict[str, float]]:
    shares: dict[str, dict[str, float]] = {}
    for step in steps:
        for lane, times in step.lanes.items():
            mine = shares.setdefault(lane, dict.fromkeys((*KINDS, "idle"), 0.0))
            for category, micros in times.items():
                mine[category] += micros / 1e6 / total if total else 0.0
    return shares


def tables(report: Report) -> Iterable[Table]:
    """For people: events, plan against measurement, devices."""
    table = Table(title="Events", title_justify="left")
    for heading in ("kind", "event"):
        table.add_column(heading)
    for heading in ("per step", "median s", "share of step"):
        table.add_column(heading, justify="right")
    for row in report.rows:
        kind = "node" if row.kind == "run" else row.kind
        table.add_row(
            kind, escape(row.name), f"{row.count:g}", f"{row.seconds:.4f}", _percent(row.share)
        )
    yield table

    table = Table(title=f"Step ({report.steps} steps, medians)", title_justify="left")
    table.add_column("")
    table.add_column("s", justify="right")
    table.add_row("measured", f"{report.measured:.4f}")
    if report.planned is not None and report.overhead is not None:
        table.add_row("planned: its events at their medians", f"{report.planned:.4f}")
        share = report.overhead / report.measured if report.measured else 0.0
        table.add_row(f"the rest: scheduler ({_percent(share)})", f"{report.overhead:.4f}")
    else:
        table.add_row("planned: the trace does not tell the plan", "-")
    table.add_row("transitions per step (number)", f"{report.sleeps + report.wakes:g}")
    table.add_row("  sleeps", f"{report.sleeps:g}")
    table.add_row("  wakes", f"{report.wakes:g}")
    yield table

    if report.devices:
        table = Table(title="Devices (share of the steps' time)", title_justify="left")
        table.add_column("device")
        for heading in ("busy", *KINDS, "idle", "held at most"):
            table.add_column(heading, justify="right")
        for lane, shares in report.devices.items():
            busy = sum(shares[kind] for kind in KINDS)
            parts = [_percent(shares[kind]) for kind in (*KINDS, "idle")]
            held = report.held.get(lane) or report.held.get(lane.rsplit("/", 1)[0])
            size = f"{held / 2**20:,.0f} MiB" if held else "-"
            table.add_row(escape(lane), _percent(busy), *parts, size)
        yield table


def _percent(share: float) -> str:
    return f"{share:.1%}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a run's report; the exit code: 2 if there is nothing to report on."""
    parser = argparse.ArgumentParser(
        prog="python -m rlgraph.report",
        description="Where a run's time went: events, plan against measurement, devices.",
    )
    parser.add_argument("run", type=Path, help="folder of a run, with its trace.json")
    folder: Path = parser.parse_args(arguments).run
    try:
        steps = read_steps(_trace_of(folder))
    except (RlgraphError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    console = Console()
    for table in tables(summarise(steps)):
        console.print(table)
    return 0


def _trace_of(folder: Path) -> Path:
    if not folder.is_dir():
        raise RlgraphError(f"{folder}: there is no such folder; give the output folder of a run")
    path = folder / "trace.json"
    if not path.is_file():
        raise RlgraphError(f"{folder}: there is no trace.json; a run writes it as it goes on")
    return path


if __name__ == "__main__":
    sys.exit(main())
