"""Choosing how a run is shown on standard output."""

from pathlib import Path
from typing import TextIO

from rich.console import Console

from rlgraph.runlog.entries import Sink
from rlgraph.runlog.live import LiveSink
from rlgraph.runlog.plain import PlainSink


def console_sink(stream: TextIO, title: str, total_steps: int, folder: Path) -> Sink:
    """A live display where the stream can show one; else plain lines."""
    console = Console(file=stream)
    can_draw = stream.isatty() and not console.is_dumb_terminal
    if can_draw and console.encoding.lower().replace("-", "") == "utf8":
        return LiveSink(console, title, total_steps)
    return PlainSink(stream, title, total_steps, folder)
