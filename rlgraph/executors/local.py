"""Everything in this process, one event after the other: for tests and debugging."""

import time
from collections.abc import Collection, Mapping
from typing import Any

import torch

from rlgraph import rows as cutting
from rlgraph.engines.build import build_engine
from rlgraph.errors import AnotherRound, EngineError, PlacementError
from rlgraph.executors import StepReport, skipped
from rlgraph.executors.residency import awake_after, change, not_done, settle
from rlgraph.executors.shards import share, spread
from rlgraph.executors.values import Values
from rlgraph.graph import Node
from rlgraph.metrics import collect, merge_into
from rlgraph.models import Resident
from rlgraph.rows import Rows
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.placement import workers_of
from rlgraph.scheduling.plan import Plan, Run, Sleep, SyncWeights, Wake, label
from rlgraph.scheduling.progress import Span
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
        crowded: Collection[str] = (),
    ) -> None:
        """Load every engine; those in ``crowded`` are left asleep.

        ``engines`` stand in for those that the residents would be built as.
        """
        for resident in residents.values():
            if (count := workers_of(resident)) > 1:
                raise PlacementError(
                    f"{resident.name} wants {count} workers, but --executor local has one process; "
                    "use --executor ray, or one rank and one engine"
                )
        self.engines: dict[str, Any] = dict(engines or {})
        self.memory: dict[str, Memory] = {}
        for name, resident in residents.items():
            if name not in self.engines:
                self.engines[name] = build_engine(resident, context, "local")
            if resident.on_device:
                self.memory[name] = settle(
                    self.engines[name],
                    resident,
                    asleep=name in crowded,
                    discard=resident.follows in residents,
                )
        self.awake = frozenset(self.memory) - frozenset(crowded)
        self.values: Values[Rows] = Values(cutting.join)
        self.injected: dict[str, Rows] = {}

    def run(self, plan: Plan) -> StepReport:
        """Execute the plan's events in order."""
        report = StepReport()
        self.values.begin(plan)
        for event in plan.events:
            began = time.perf_counter()
            match event.action:
                case Run() as run:
                    if run.node in report.skipped:
                        continue
                    self._run(plan.graph.nodes[run.node], run, report)
                case SyncWeights(trainer=trainer, sampler=sampler):
                    self.engines[sampler].load_weights(self.engines[trainer].weights())
                case Wake() | Sleep() as action:
                    self._change(action)
            span = Span(event, began, time.perf_counter())
            report.spans.append(span)
            name = label(event.action)
            report.seconds[name] = report.seconds.get(name, 0.0) + span.end - span.begin
        self.values.end(plan)
        self.injected = {}
        return report

    def _change(self, action: Sleep | Wake) -> None:
        try:
            change(self.engines[action.resident], action)
        except EngineError as error:
            raise not_done(error, action, self.awake) from error
        self.awake = awake_after(self.awake, action)

    def _run(self, node: Node, run: Run, report: StepReport) -> None:
        kind = node.function.result
        if node.name in self.injected:
            assert kind is not None
            whole = self.injected[node.name]
            self.values.put(run, _share(whole, run), kind)
            return
        arguments: dict[str, Any] = dict(node.constants)
        for port, value in node.inputs.items():
            given = self._input(value.node, run)
            if given is None:
                assert kind is not None
                self.values.put(run, None, kind)
                return
            arguments[port] = getattr(given, value.field) if value.field else given
        if node.resident is not None and node.function.role is not None:
            arguments[node.function.role.name] = self.engines[node.resident.name]
        with collect() as metrics:
            try:
                result = node.function.run(arguments)
                if kind is not None:
                    self.values.put(run, result, kind)
            except AnotherRound:
                report.skipped |= skipped(node, run)
            except Exception as error:
                error.add_note(f"in node {node.name}, made at {node.where}")
                raise
        merge_into(report.metrics, metrics)

    def _input(self, source: Node, run: Run) -> Rows | None:
        if self.values.is_divided(source.name, run):
            return self.values.part(source.name, run)
        whole = self.values.whole(source.name, run)
        kind = source.function.result
        return _share(whole, run) if kind is not None and cutting.is_batched(kind) else whole

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


def _share(value: Rows, run: Run) -> Rows | None:
    """The rows of a part; None if there are too few rows for it to have any."""
    if run.part.of == 1:
        return value
    positions = share(len(value), run.part)
    return value[torch.from_numpy(positions)] if len(positions) or not len(value) else None
