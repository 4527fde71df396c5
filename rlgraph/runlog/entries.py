"""What a run's log is made of, and the protocol of everything that takes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Step:
    """The numbers of one finished step; ``step`` counts from 1."""

    step: int
    metrics: Mapping[str, float]
    seconds: Mapping[str, float]
    """Wall-clock seconds by node; ``total`` is the whole step."""

    @property
    def total_seconds(self) -> float:
        """Of the whole step; the sum over the nodes if nobody measured it."""
        return self.seconds.get("total", sum(self.seconds.values()))

    @property
    def node_seconds(self) -> dict[str, float]:
        """By node, ``total`` left out."""
        return {name: taken for name, taken in self.seconds.items() if name != "total"}


@dataclass(frozen=True)
class Sample:
    """One prompt and what the policy answered."""

    prompt: Any
    """As the data set has it: text, or chat messages."""
    response: str
    reward: float | None
    """None if the scorer failed on it."""
    length: int
    """Tokens that the policy sampled."""
    truncated: bool
    answer: Any = None
    """The data set's ``answer`` column, if there is one."""


@dataclass(frozen=True)
class Samples:
    """A few rows of one step's rollout."""

    step: int
    rows: tuple[Sample, ...]


@dataclass(frozen=True)
class Event:
    """Something that happened once: a warning, a restart, a saved checkpoint."""

    kind: str
    message: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """The numbers of an evaluation on held-out prompts after ``step``."""

    step: int
    metrics: Mapping[str, float]


Entry = Step | Samples | Event | Evaluation


class Sink(Protocol):
    """Takes a run's log somewhere. Entries that mean nothing to it are let pass."""

    def write(self, entry: Entry) -> None:
        """Called in the order in which things happen, never from two threads at once."""
        ...

    def close(self) -> None:
        """The run is over, or has failed; called once."""
        ...
