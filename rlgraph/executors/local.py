"""Everything in this process, one event after the other: for tests and debugging."""

import time
from collections.abc import Mapping
from typing import Any

import torch

from rlgraph.engines.build import build_engine
from rlgraph.errors import AnotherRound, PlacementError
from rlgraph.executors import StepReport
from rlgraph.executors.shards import spread
from rlgraph.graph import Node
from rlgraph.metrics import collect, merge_into
from rlgraph.models import Resident
from rlgraph.placement import workers_of
from rlgraph.plan import Plan, Run, Sleep, SyncWeights, Wake, label
from rlgraph.rows import Rows
from rlgraph.settings import RunContext


class LocalExecutor:
    """Runs plans in-process, without Ray. A breakpoint in a node works.

    Raises:
        PlacementError: a resident wants more than one worker.
    """

    def __init__(
        self,
        residents: Mapping[str, Resident],
        context: RunContext,
        engines: Mapping[str, Any] | None = None,
    ) -> None:
        """``engines`` stand in for those that the residents would be built as."""
        for resident in residents.values():
            if (count := workers_of(resident)) > 1:
                raise PlacementError(
                    f"{resident.name} wants {count} workers, but --executor local has one process; "
                    "use --executor ray, or one rank and one engine"
                )
        self.engines = dict(engines or {})
        for name, resident in residents.items():
            if name not in self.engines:
                self.engines[name] = build_engine(resident, context, "local")
        self.values: dict[str, Rows] = {}
        self.injected: dict[str, Rows] = {}

    def run(self, plan: Plan) -> StepReport:
        """Execute the plan's events in order."""
        report = StepReport()
        for event in plan.events:
            began = time.perf_counter()
            match event.action:
                case Run(node=name):
                    if name in report.skipped:
                        continue
                    self._run(plan.graph.nodes[name], report)
                case SyncWeights(trainer=trainer, sampler=sampler):
                    self.engines[sampler].load_weights(self.engines[trainer].weights())
                case Wake(resident=name):
                    self.engines[name].wake()
                case Sleep(resident=name):
                    self.engines[name].sleep()
            report.seconds[label(event.action)] = time.perf_counter() - began
        self.injected = {}
        return report

    def _run(self, node: Node, report: StepReport) -> None:
        if node.name in self.injected:
            self.values[node.name] = self.injected[node.name]
            return
        arguments: dict[str, Any] = dict(node.constants)
        for port, value in node.inputs.items():
            given = self.values[value.node.name]
            arguments[port] = getattr(given, value.field) if value.field else given
        if node.resident is not None and node.function.role is not None:
            arguments[node.function.role.name] = self.engines[node.resident.name]
        with collect() as metrics:
            try:
                self.values[node.name] = node.function.run(arguments)
            except AnotherRound:
                report.skipped |= {node.name} | node.graph.dependents(node.name)
            except Exception as error:
                error.add_note(f"in node {node.name}, made at {node.where}")
                raise
        merge_into(report.metrics, metrics)

    def fetch(self, node: str, rows: int | None = None) -> Rows:
        """What a node gave in the latest run: all of it, or ``rows`` of it, evenly spread."""
        value = self.values[node]
        return value if rows is None else value[torch.from_numpy(spread(len(value), rows))]

    def call(self, resident: str, method: str, *args: Any) -> Any:
        """Call a method of a resident's engine."""
        return getattr(self.engines[resident], method)(*args)

    def inject(self, values: Mapping[str, Rows]) -> None:
        """Give these values instead of running their nodes, in the next run only."""
        self.injected = dict(values)

    def close(self) -> None:
        """Let go of every engine."""
        for engine in self.engines.values():
            if hasattr(engine, "close"):
                engine.close()
        self.engines.clear()
