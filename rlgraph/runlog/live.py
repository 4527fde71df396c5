"""The log as one live display: progress, key numbers, times and sample responses."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rich import box
from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rlgraph.runlog.entries import Entry, Evaluation, Event, Sample, Samples, Step
from rlgraph.runlog.text import clock, evaluation_line, number, shorten, sparkline, visible

_NARROW = 72
"""Below this many columns, the two tables stand one above the other."""
_NODES = 6
"""Nodes whose seconds are shown one by one."""
_STYLES = {"warning": "yellow", "error": "bold red", "stopped": "bold red", "finished": "green"}


class LiveSink:
    """A display that stays at the bottom of the terminal; events scroll by above it."""

    def __init__(
        self,
        console: Console,
        title: str,
        total_steps: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._steps: deque[float] = deque(maxlen=10)
        self._view = View(console, title, total_steps, now, started=now(), stepped=now())
        self._console = console
        self._live = Live(self._view, console=console, refresh_per_second=4)
        self._live.start()

    def write(self, entry: Entry) -> None:
        """Show it."""
        match entry:
            case Step():
                now = self._now()
                self._steps.append(now - self._view.stepped)
                rewards = (*self._view.rewards, entry.metrics.get("reward/mean", float("nan")))
                self._view = replace(
                    self._view,
                    last=entry,
                    stepped=now,
                    rewards=rewards,
                    step_seconds=sum(self._steps) / len(self._steps),
                )
            case Samples():
                self._view = replace(self._view, samples=entry)
            case Evaluation(step, metrics):
                self._console.print(Text(evaluation_line(step, metrics), "bold cyan"))
            case Event(kind, message, fields):
                line = Text.assemble((f"{kind}: ", _STYLES.get(kind, "cyan")), visible(message))
                details = ", ".join(f"{name}={visible(value)}" for name, value in fields.items())
                self._console.print(line.append(f" ({details})" if details else "", "dim"))
        self._live.update(self._view, refresh=True)

    def close(self) -> None:
        """Leave the last state on screen and give the terminal back."""
        self._view = replace(self._view, ended=self._now())
        self._live.update(self._view)
        self._live.stop()


@dataclass(frozen=True)
class View:
    """One state of the display. Immutable: a thread of rich's draws it while the run goes on."""

    console: Console
    title: str
    total_steps: int
    now: Callable[[], float]
    started: float
    stepped: float
    """When the last step ended."""
    ended: float | None = None
    step_seconds: float | None = None
    """Mean of the last steps, everything between them included."""
    last: Step = field(default_factory=lambda: Step(0, {}, {}))
    rewards: tuple[float, ...] = ()
    samples: Samples | None = None

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [self._progress()]
        if self.last.step:
            wide = self.console.width >= _NARROW
            tables = Table.grid(expand=True, padding=(0, 3))
            for _ in range(2 if wide else 1):
                tables.add_column(ratio=1)
            if wide:
                tables.add_row(self._numbers(), self._times())
            else:
                tables.add_row(self._numbers())
                tables.add_row(self._times())
            parts.append(Panel(tables, box=box.ROUNDED, border_style="dim"))
        if self.samples is not None:
            parts.append(self._samples(self.samples))
        return Group(*parts)

    def _progress(self) -> RenderableType:
        now = self.now() if self.ended is None else self.ended
        elapsed = clock(now - self.started)
        left = "?"
        if self.step_seconds is not None:
            steps = self.total_steps - self.last.step
            left = clock(steps * self.step_seconds - (now - self.stepped) * (steps > 0))
        narrow = self.console.width < _NARROW
        row = Table.grid(expand=True, padding=(0, 1))
        row.add_column(no_wrap=True, max_width=32)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        row.add_column(no_wrap=True, style="dim")
        bar = ProgressBar(total=max(self.total_steps, 1), completed=self.last.step)
        running = f"{elapsed}, {left} left" if narrow else f"{elapsed} elapsed, {left} left"
        times = elapsed if self.ended is not None else running
        steps_text = f"{'' if narrow else 'step '}{self.last.step}/{self.total_steps}"
        title = "" if narrow else self.title
        row.add_row(Text(title, "bold"), bar, Text(steps_text), Text(times))
        return row

    def _numbers(self) -> RenderableType:
        metrics = self.last.metrics

        def show(name: str) -> str:
            return number(metrics.get(name))

        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(justify="right", min_width=7, no_wrap=True)
        table.add_column(no_wrap=True, overflow="crop")
        curve = Text(sparkline(self.rewards, 24), "green")
        table.add_row("reward", Text(show("reward/mean"), "bold green"), curve)
        table.add_row("  spread", show("reward/std"), "")
        table.add_row("KL", show("kl/reference"), "")
        cut = metrics.get("rollout/truncated")
        note = f"tokens, {cut:.0%} cut off" if cut is not None and cut == cut else "tokens"
        table.add_row("length", show("rollout/response_length"), Text(note, "dim"))
        table.add_row("speed", show("rollout/tokens_per_second"), Text("tokens/s", "dim"))
        table.add_row("policy loss", show("policy/loss"), "")
        table.add_row("grad norm", show("policy/grad_norm"), "")
        return table

    def _times(self) -> RenderableType:
        nodes = sorted(self.last.node_seconds.items(), key=lambda item: -item[1])
        rows = nodes[:_NODES] if len(nodes) <= _NODES else nodes[: _NODES - 1]
        if len(rows) < len(nodes):
            rows.append(("other nodes", sum(taken for _, taken in nodes[len(rows) :])))
        longest = max((taken for _, taken in rows), default=0.0)
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True, max_width=20)
        table.add_column(justify="right", min_width=6, no_wrap=True)
        table.add_column(width=12)
        table.add_row("step", Text(f"{self.last.total_seconds:.1f} s", "bold"), "")
        for name, taken in rows:
            bar = Bar(max(longest, 1e-9), 0, max(taken, 0.0), width=12, color="blue")
            table.add_row(Text(name), f"{taken:.1f} s", bar)
        return table

    def _samples(self, samples: Samples) -> RenderableType:
        # Two lines a row: what is longer loses its middle.
        wide = self.console.width >= _NARROW
        answers = wide and any(row.answer is not None for row in samples.rows)
        taken = 36 if answers else 20
        room = 2 * max((self.console.width - taken) // 2, 4)
        table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
        table.add_column("prompt", ratio=1, overflow="fold")
        table.add_column("response", ratio=1, overflow="fold")
        if answers:
            table.add_column("answer", max_width=14, overflow="fold")
        table.add_column("reward", justify="right", no_wrap=True)
        for row in samples.rows:
            cells = [_cell(row.prompt, room), _response(row, room)]
            if answers:
                cells.append(_cell("" if row.answer is None else row.answer, 14))
            table.add_row(*cells, _reward(row))
        title = Text(f"samples of step {samples.step}", "dim")
        return Panel(table, title=title, title_align="left", box=box.ROUNDED, border_style="dim")


def _cell(text: object, room: int) -> Text:
    # Text, never str: rich would read [bold] in a model's output as markup.
    return Text(shorten(visible(text), room))


def _response(row: Sample, room: int) -> Text:
    text = _cell(row.response, room) if row.response else Text("(empty)", "dim")
    return text.append(" (cut off)", "dim yellow") if row.truncated else text


def _reward(row: Sample) -> Text:
    return Text("none", "yellow") if row.reward is None else Text(number(row.reward))
