"""Executors: they obey a plan. Same graph, same seed, same numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlgraph.errors import EngineError
from rlgraph.graph import Node
from rlgraph.metrics import Metrics, merge_into
from rlgraph.rows import Rows
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.plan import Plan, Run
from rlgraph.scheduling.progress import Span


@dataclass
class StepReport:
    """What came of one run of a plan."""

    metrics: Metrics = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """Time per node, and per weight sync, sleep and wake."""
    spans: list[Span] = field(default_factory=list)
    """When each event took place, in seconds of the process's performance counter."""
    skipped: set[str] = field(default_factory=set)
    """Nodes that were not run, since one before them asked for another round."""

    def add(self, other: "StepReport") -> None:
        """Take in the report of a further round of the same step."""
        merge_into(self.metrics, other.metrics)
        for name, seconds in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.spans += other.spans
        self.skipped = other.skipped


def skipped(node: Node, run: Run) -> set[str]:
    """What is left out of a step, since ``node`` asked for another round.

    Raises:
        EngineError: it works on the next step's batch, which nobody would sample again.
    """
    if run.ahead:
        raise EngineError(
            f"{node.where}: {node.name} asks for another round, but comes before a sampling "
            "that is done a step ahead; use --staleness 0"
        )
    return {node.name} | node.graph.dependents(node.name)


class Executor(Protocol):
    """Holds the residents of a run and executes plans over them."""

    memory: dict[str, Memory]
    """What the engines were found to hold when they were started."""
    awake: frozenset[str]
    """Who is awake now."""

    def run(self, plan: Plan) -> StepReport:
        """Execute every event of the plan, each after those it depends on."""
        ...

    def fetch(self, node: str, rows: int | None = None) -> Rows:
        """What a node gave in the latest run: all of it, or ``rows`` of it, evenly spread."""
        ...

    def call(self, resident: str, method: str, *args: Any) -> Any:
        """Call a method of a resident's engine, on all its ranks; the first one's answer."""
        ...

    def close(self) -> None:
        """End every process and free every engine that the executor started."""
        ...

    def inject(self, values: Mapping[str, Rows]) -> None:
        """Give these values instead of running their nodes, in the next run only."""
        ...
