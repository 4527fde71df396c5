"""The log as plain lines, for files, pipes and continuous integration."""

from pathlib import Path
from typing import TextIO

from rlgraph.runlog.entries import Entry, Evaluation, Event, Sample, Samples, Step
from rlgraph.runlog.text import evaluation_line, number, shorten, visible

_SHOWN = (("reward", "reward/mean"), ("kl", "kl/reference"), ("length", "rollout/response_length"))


class PlainSink:
    """One line a step, and one a kept sample."""

    def __init__(self, stream: TextIO, title: str, total_steps: int, folder: Path) -> None:
        self._stream = stream
        self._total = total_steps
        self._print(f"{title}: {total_steps} steps, log in {folder}")

    def write(self, entry: Entry) -> None:
        """Print it."""
        match entry:
            case Step():
                self._print(self._step(entry))
            case Samples(_, rows):
                for row in rows:
                    self._print(f"  sample  {_sample(row)}")
            case Evaluation(step, metrics):
                self._print(evaluation_line(step, metrics))
            case Event(kind, message, fields):
                details = ", ".join(f"{name}={visible(value)}" for name, value in fields.items())
                self._print(f"{kind}: {visible(message)}" + (f" ({details})" if details else ""))

    def close(self) -> None:
        """Flush; the stream is not ours to close."""
        self._stream.flush()

    def _step(self, entry: Step) -> str:
        width = len(str(self._total))
        parts = [f"step {entry.step:>{width}}/{self._total}"]
        parts += [f"{label} {number(entry.metrics.get(name)):>7}" for label, name in _SHOWN]
        speed = number(entry.metrics.get("rollout/tokens_per_second"))
        parts.append(f"{speed:>6} tok/s")
        return "  ".join(parts) + f"  {entry.total_seconds:5.1f} s{_times(entry)}"

    def _print(self, line: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._stream.flush()


def _times(entry: Step) -> str:
    """Where the time went: the nodes that took more than a twentieth of it."""
    nodes = entry.node_seconds
    slow = {name: taken for name, taken in nodes.items() if taken > entry.total_seconds / 20}
    shown = [f"{name} {taken:.1f}" for name, taken in slow.items()]
    rest = sum(nodes.values()) - sum(slow.values())
    if shown and rest >= 0.05:
        shown.append(f"rest {rest:.1f}")
    return f" ({', '.join(shown)})" if shown else ""


def _sample(row: Sample) -> str:
    reward = "none" if row.reward is None else number(row.reward)
    answer = "" if row.answer is None else f"   (answer: {shorten(visible(row.answer), 24)})"
    cut = " (cut off)" if row.truncated else ""
    prompt = shorten(visible(row.prompt), 60)
    response = shorten(visible(row.response), 80) or "(empty)"
    return f"reward {reward:>7}  {prompt} -> {response}{cut}{answer}"
