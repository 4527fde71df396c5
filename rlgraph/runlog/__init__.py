"""What a run tells its user: numbers, sample responses and events, on screen and on disk."""

from rlgraph.runlog.config import LogConfig
from rlgraph.runlog.entries import Entry, Evaluation, Event, Sample, Samples, Sink, Step
from rlgraph.runlog.log import RunLog

__all__ = [
    "Entry",
    "Evaluation",
    "Event",
    "LogConfig",
    "RunLog",
    "Sample",
    "Samples",
    "Sink",
    "Step",
]
