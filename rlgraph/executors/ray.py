"""Plans on Ray: worker pools run the nodes, the controller moves references."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray

from rlgraph.errors import EngineError
from rlgraph.executors import StepReport, skipped
from rlgraph.executors.cluster import connect, ship_source_files
from rlgraph.executors.distributed import (
    Distributed,
    argument,
    combine,
    concatenate,
    count_rows,
    fetch,
    put,
    select,
)
from rlgraph.executors.pool import (
    START_TIMEOUT,
    Pool,
    answer,
    start_pools,
    stop_pools,
)
from rlgraph.executors.residency import awake_after, not_done
from rlgraph.executors.shards import share, shares, spread
from rlgraph.executors.transit import Receipt
from rlgraph.executors.values import Values
from rlgraph.executors.worker import Task
from rlgraph.graph import Graph, Node
from rlgraph.metrics import merge_into
from rlgraph.models import Resident
from rlgraph.node import Split
from rlgraph.rows import Rows, is_batched
from rlgraph.scheduling.placement import Placement
from rlgraph.scheduling.plan import (
    HOST,
    Event,
    Plan,
    Run,
    Sleep,
    SyncWeights,
    Wake,
    label,
)
from rlgraph.scheduling.progress import Span, drive
from rlgraph.settings import RunContext
from rlgraph.types import Record

RUN_TIMEOUT = 3600.0
"""Seconds that one event of a plan may take."""


@dataclass
class _Started:
    """An event on its way: the answers it waits for, and what to do with them."""

    event: Event
    waiting: dict[Any, int]
    """Reference of an answer to the number of the worker that gives it."""
    answers: dict[int, Any]
    began: float
    shards: list[np.ndarray]
    results: dict[int, Any]
    """Reference of what a worker gave; only of those that keep it."""
    inputs: Mapping[str, Distributed] = field(default_factory=dict)


class RayExecutor:
    """Runs plans on a Ray cluster: one on this machine, or that of ``RAY_ADDRESS``.

    Raises:
        PlacementError: Ray cannot be reached, or has not the resources free.
        EngineError: a worker process died while it loaded its engines.
    """

    def __init__(
        self,
        residents: Mapping[str, Resident],
        placement: Placement,
        context: RunContext,
        host_workers: int = 1,
        crowded: Collection[str] = (),
    ) -> None:
        """Load every engine; those in ``crowded`` are left asleep."""
        self._own_ray = connect(sum(device_set.devices for device_set in placement.sets.values()))
        self.values: Values[Distributed] = Values(concatenate)
        self.injected: dict[str, Rows] = {}
        self.known: dict[str, Graph] = {}
        """Kept, so that no other graph gets the identity of one that the workers know."""
        self.pools: dict[str, Pool] = {}
        try:
            self.pools = start_pools(
                residents, placement, context, host_workers, crowded, START_TIMEOUT
            )
        except BaseException:
            self.close()
            raise
        self.homes = {
            resident.name: pool for pool in self.pools.values() for resident in pool.residents
        }
        self.memory = {pool.name: pool.memory for pool in self.pools.values() if pool.memory}
        self.awake = frozenset(self.memory) - frozenset(crowded)

    def run(self, plan: Plan) -> StepReport:
        """Start every event as soon as those it depends on have ended."""
        self._teach(plan.graph)
        self.values.begin(plan)
        report, started = StepReport(), dict[int, _Started]()

        def start(index: int, event: Event) -> bool:
            action = event.action
            if isinstance(action, Run) and action.node in report.skipped:
                return False
            started[index] = self._start(plan, event)
            return True

        def wait() -> list[int]:
            self._await_one(started)
            ended = [index for index, event in started.items() if not event.waiting]
            for index in ended:
                self._finish(plan, started.pop(index), report)
            return ended

        drive(plan, start, wait)
        self.values.end(plan)
        self.injected = {}
        return report

    def fetch(self, node: str, rows: int | None = None) -> Rows:
        """What a node gave in the latest run: all of it, or ``rows`` of it, evenly spread."""
        value = self.values[node]
        wanted = None if rows is None else spread(value.rows or 0, rows)
        return fetch(value, wanted, RUN_TIMEOUT)

    def call(self, resident: str, method: str, *args: Any) -> Any:
        """Call a method of a resident's engine on all its workers; the first one's answer."""
        refs = [
            worker.call.remote(resident, method, *args) for worker in self.homes[resident].workers
        ]
        answers = [answer(ref, f"{method} of {resident}", RUN_TIMEOUT) for ref in refs]
        return answers[0]

    def inject(self, values: Mapping[str, Rows]) -> None:
        """Give these values instead of running their nodes, in the next run only."""
        self.injected = dict(values)

    def close(self) -> None:
        """End every worker, and the Ray that this executor started."""
        if not ray.is_initialized():
            return
        try:
            stop_pools(self.pools.values())
        finally:
            self.pools = {}
            if self._own_ray:
                ray.shutdown()

    def _teach(self, graph: Graph) -> None:
        """Tell the workers the graph's nodes, once."""
        key = _key(graph)
        if key in self.known:
            return
        ship_source_files()
        refs: dict[Any, str] = {}
        for pool in self.pools.values():
            names = {resident.name for resident in pool.residents}
            tasks = [
                Task(node.name, node.where, node.function, node.constants, resident)
                for node in graph.nodes.values()
                for resident in [node.resident.name if node.resident else None]
                if resident in names or (resident is None and pool.name == HOST)
            ]
            refs |= {worker.learn.remote(key, tasks): pool.name for worker in pool.workers}
        for ref, name in refs.items():
            answer(ref, f"sending graph {graph.name} to {name}", START_TIMEOUT)
        self.known[key] = graph

    def _start(self, plan: Plan, event: Event) -> _Started:
        started = _Started(event, {}, {}, time.perf_counter(), [], {})
        match event.action:
            case Run() as run:
                self._start_run(plan.graph.nodes[run.node], run, started)
            case SyncWeights(trainer=trainer, sampler=sampler):
                packed = [w.weights.remote(trainer) for w in self.homes[trainer].workers]
                targets = self.homes[sampler].workers
                loads = [w.load_weights.remote(sampler, packed[0]) for w in targets]
                started.waiting = {ref: i for i, ref in enumerate([*loads, *packed[1:]])}
            case Wake() | Sleep() as action:
                workers = self.homes[action.resident].workers
                started.waiting = {w.change.remote(action): i for i, w in enumerate(workers)}
        return started

    def _inputs(self, node: Node, run: Run) -> dict[str, Distributed] | None:
        """What goes into a run, by port; None if its part has no rows."""
        inputs = {}
        for port, value in node.inputs.items():
            source = value.node.name
            if self.values.is_divided(source, run):
                given = self.values.part(source, run)
            else:
                given = _share(self.values.whole(source, run), run)
            if given is None:
                return None
            inputs[port] = given
        return inputs

    def _start_run(self, node: Node, run: Run, started: _Started) -> None:
        kind = node.function.result
        if node.name in self.injected:
            assert kind is not None
            self.values.put(run, _share(put(self.injected[node.name], kind), run), kind)
            return
        inputs = self._inputs(node, run)
        if inputs is None:
            assert kind is not None
            self.values.put(run, None, kind)
            return
        started.inputs = inputs
        pool = self.homes[node.resident.name] if node.resident else self.pools[HOST]
        count = count_rows(node, inputs)
        split = node.function.split
        whole = split is Split.NEVER
        if node.resident and node.resident.kind in ("prompts", "state"):
            # What changes from call to call exists once: on the first worker.
            split = Split.NEVER
        if count is None or (split is Split.NEVER and pool.ranked):
            # Ranks of one trainer act together: each sees everything.
            shards = [np.arange(count or 0)] * (len(pool.workers) if pool.ranked else 1)
        else:
            known = [value for value in inputs.values() if value.rows is not None]
            shards = shares(
                split,
                len(pool.workers),
                count,
                lengths=next((v.lengths for v in known if v.lengths is not None), None),
                groups=next((v.groups for v in known if v.groups is not None), None),
                keeps_rows=not isinstance(node.function.result, Record),
            )
            if not pool.ranked:
                shards = [shard for shard in shards if len(shard)] or shards[:1]
        started.shards = shards
        for number, shard in enumerate(shards):
            arguments = {
                port: argument(inputs[port], value.field, value.type, None if whole else shard)
                for port, value in node.inputs.items()
            }
            keep = node.function.result is not None and (split is not Split.NEVER or number == 0)
            call = pool.workers[number].run.options(num_returns=2)
            result, receipt = call.remote(_key(node.graph), node.name, arguments, keep)
            started.waiting[receipt] = number
            if keep:
                started.results[number] = result

    def _await_one(self, started: dict[int, _Started]) -> None:
        """Wait until some event gets an answer; collect it."""
        refs = {ref: event for event in started.values() for ref in event.waiting}
        if not refs or any(not event.waiting for event in started.values()):
            return
        oldest = min(event.began for event in started.values())
        patience = max(0.0, RUN_TIMEOUT - (time.perf_counter() - oldest))
        ready, _ = ray.wait(list(refs), num_returns=1, timeout=patience)
        if not ready:
            late = ", ".join(label(other.event.action) for other in started.values())
            raise EngineError(f"no answer after {RUN_TIMEOUT:.0f} s from: {late}")
        one = refs[ready[0]]
        number = one.waiting.pop(ready[0])
        action = one.event.action
        try:
            one.answers[number] = answer(
                ready[0], f"{label(action)} on worker {number}", RUN_TIMEOUT
            )
        except EngineError as error:
            if isinstance(action, Sleep | Wake):
                self._undo(action)
                raise not_done(error, action, self.awake) from None
            raise

    def _undo(self, action: Sleep | Wake) -> None:
        """What one worker could not do, the resident's others must not have done either."""
        back = Wake(action.resident) if isinstance(action, Sleep) else Sleep(action.resident)
        undoing = [worker.change.remote(back) for worker in self.homes[action.resident].workers]
        ray.wait(undoing, num_returns=len(undoing), timeout=START_TIMEOUT)

    def _finish(self, plan: Plan, started: _Started, report: StepReport) -> None:
        now = time.perf_counter()
        action, took = started.event.action, now - started.began
        match action:
            case Run() as run if started.answers:
                took = self._finish_run(plan.graph.nodes[run.node], run, started, report)
            case Sleep() | Wake():
                self.awake = awake_after(self.awake, action)
        report.spans.append(Span(started.event, started.began, now))
        report.seconds[label(action)] = report.seconds.get(label(action), 0.0) + took

    def _finish_run(self, node: Node, run: Run, started: _Started, report: StepReport) -> float:
        """Take in what the workers gave; the seconds that they took."""
        receipts: list[Receipt] = [started.answers[i] for i in sorted(started.answers)]
        for receipt in receipts:
            merge_into(report.metrics, receipt.metrics)
        if any(receipt.another_round for receipt in receipts):
            report.skipped |= skipped(node, run)
        elif (kind := node.function.result) is not None:
            given = sorted(started.results)
            value = combine(
                kind,
                [started.results[number] for number in given],
                [started.answers[number] for number in given],
                [started.shards[number] for number in given],
                list(started.inputs.values()),
            )
            self.values.put(run, value, kind)
        return max(receipt.seconds for receipt in receipts)


def _share(value: Distributed, run: Run) -> Distributed | None:
    """The rows of a part; None if there are too few rows for it to have any."""
    if run.part.of == 1 or not is_batched(value.kind):
        return value
    positions = share(value.rows or 0, run.part)
    return select(value, positions) if len(positions) or not value.rows else None


def _key(graph: Graph) -> str:
    return f"{graph.name}@{id(graph)}"
