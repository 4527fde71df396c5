"""The one object that a run reports to."""

import math
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlgraph.records import Rewards, Rollout
from rlgraph.runlog.config import LogConfig
from rlgraph.runlog.console import console_sink
from rlgraph.runlog.entries import Entry, Evaluation, Event, Samples, Sink, Step
from rlgraph.runlog.jsonl import RESERVED, JsonlSink
from rlgraph.runlog.pick import pick_samples
from rlgraph.runlog.tensorboard import TensorBoardSink
from rlgraph.runlog.wandb import WandbSink


class RunLog:
    """Shows a run on the console and keeps it in ``folder``.

    Used as a context. Always writes ``metrics.jsonl`` (one object a step),
    ``samples.jsonl`` and ``events.jsonl``, each line flushed at once; appends
    if they exist, so that a resumed run goes on in the same files.

    Args:
        folder: made if it is missing.
        config: see :class:`LogConfig`.
        total_steps: the step at which the run ends.
        title: the run's name, for people.
        settings: the run's settings, flat or nested; only wandb gets them.
        sinks: where the log should go besides. Anything with ``write`` and ``close``.
    """

    def __init__(
        self,
        folder: Path,
        config: LogConfig,
        total_steps: int,
        title: str,
        *,
        settings: Mapping[str, Any] | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.folder = folder
        self.config = config
        self.total_steps = total_steps
        self.title = title
        self._settings = settings or {}
        self._extra = sinks
        self._sinks: list[Sink] = []
        self._open = ExitStack()
        self._lock = threading.RLock()
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        """Open the files and the display.

        Raises:
            RlgraphError: a sink that was asked for is not installed.
        """
        with ExitStack() as stack:
            sinks = []
            for sink in chain(self._built_in(), self._extra):
                stack.callback(sink.close)
                sinks.append(sink)
            self._open, self._sinks = stack.pop_all(), sinks
        return self

    def _built_in(self) -> Iterator[Sink]:
        # The console comes last: nothing may print over a live display while it opens.
        self.folder.mkdir(parents=True, exist_ok=True)
        yield JsonlSink(self.folder)
        if self.config.tensorboard:
            yield TensorBoardSink(self.folder)
        if self.config.wandb:
            yield WandbSink(self.folder, self.config.wandb_project, self.title, self._settings)
        yield console_sink(sys.stdout, self.title, self.total_steps, self.folder)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._open, self._lock:
            if kind is None:
                self.event("finished", f"the log is in {self.folder}")
            else:
                self.event("stopped", f"{kind.__name__} ended the run; its log is in {self.folder}")
            self._sinks = []

    def step(self, step: int, metrics: Mapping[str, float], seconds: Mapping[str, float]) -> None:
        """The numbers of a finished step.

        Args:
            step: counted from 1.
            metrics: by name, ``area/what``. A non-finite one is kept as null
                and named under ``non_finite``; the first time, it is an event.
            seconds: wall-clock seconds by node, and ``total``.

        Raises:
            ValueError: a value is not a number, or a name is one that the log uses.
        """
        numbers = _numbers(metrics)
        if taken := [name for name in numbers if name in RESERVED or name.startswith("seconds/")]:
            raise ValueError(f"metric '{taken[0]}' has a name that the log uses; say area/what")
        self._write(Step(step, numbers, _numbers(seconds)))
        new = [n for n, v in numbers.items() if not math.isfinite(v) and n not in self._warned]
        if new:
            self._warned.update(new)
            self.event("warning", f"not finite: {', '.join(new)}", step=step)

    def wants_samples(self, step: int) -> bool:
        """Would :meth:`samples` keep anything? Saves fetching rows from the workers."""
        due = step in (1, self.total_steps) or step % self.config.samples_every == 0
        return due and self.config.samples > 0

    def samples(self, step: int, rollout: Rollout, rewards: Rewards) -> None:
        """Keep and show a few rows, spread over the batch, if this step's turn has come.

        Raises:
            ValueError: rollout and rewards differ in length.
        """
        if self.wants_samples(step) and len(rollout):
            self._write(Samples(step, pick_samples(rollout, rewards, self.config.samples)))

    def evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """The numbers of an evaluation on held-out prompts, after ``step`` steps."""
        self._write(Evaluation(step, _numbers(metrics)))

    def event(self, kind: str, message: str, **fields: Any) -> None:
        """Something that happened once: ``event("checkpoint", "saved", path=folder)``.

        ``warning`` and ``error`` stand out on the console.
        """
        self._write(Event(kind, message, fields))

    def _write(self, entry: Entry) -> None:
        if not self._sinks:
            raise RuntimeError("the log is not open: use it as `with RunLog(...) as log:`")
        with self._lock:
            for sink in self._sinks:
                sink.write(entry)


def _numbers(given: Mapping[str, float]) -> dict[str, float]:
    numbers = {}
    for name, value in given.items():
        try:
            numbers[name] = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"metric '{name}' is {value!r}, not a number") from None
    return numbers
