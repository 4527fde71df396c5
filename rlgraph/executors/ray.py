"""Plans on Ray: worker pools run the nodes, the controller moves references."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError, RayTaskError

from rlgraph.errors import EngineError
from rlgraph.executors import StepReport
from rlgraph.executors.cluster import connect, ship_source_files
from rlgraph.executors.distributed import Distributed, argument, combine, count_rows, fetch, put
from rlgraph.executors.pool import (
    HOST,
    START_TIMEOUT,
    Pool,
    answer,
    explain,
    start_pools,
    stop_pools,
)
from rlgraph.executors.shards import shares, spread
from rlgraph.executors.transit import Receipt
from rlgraph.executors.worker import Task
from rlgraph.graph import Graph, Node
from rlgraph.metrics import merge_into
from rlgraph.models import Resident
from rlgraph.node import Split
from rlgraph.placement import Placement
from rlgraph.plan import Action, Plan, Run, Sleep, SyncWeights, Wake, label
from rlgraph.rows import Rows
from rlgraph.settings import RunContext
from rlgraph.types import Record

RUN_TIMEOUT = 3600.0
"""Seconds that one event of a plan may take."""


@dataclass
class _Started:
    """An event on its way: the answers it waits for, and what to do with them."""

    action: Action
    waiting: dict[Any, int]
    """Reference of an answer to the number of the worker that gives it."""
    answers: dict[int, Any]
    began: float
    shards: list[np.ndarray]
    results: dict[int, Any]
    """Reference of what a worker gave; only of those that keep it."""


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
    ) -> None:
        self._own_ray = connect(placement)
        self.values: dict[str, Distributed] = {}
        self.injected: dict[str, Rows] = {}
        self.known: dict[str, Graph] = {}
        """Kept, so that no other graph gets the identity of one that the workers know."""
        self.pools: dict[str, Pool] = {}
        try:
            self.pools = start_pools(residents, placement, context, host_workers, START_TIMEOUT)
        except BaseException:
            self.close()
            raise
        self.homes = {
            resident.name: pool for pool in self.pools.values() for resident in pool.residents
        }

    def run(self, plan: Plan) -> StepReport:
        """Start every event as soon as those it depends on have ended."""
        self._teach(plan.graph)
        report, ended = StepReport(), set[int]()
        waiting, started = list(enumerate(plan.events)), dict[int, _Started]()
        while waiting or started:
            for index, event in [entry for entry in waiting if ended.issuperset(entry[1].after)]:
                waiting.remove((index, event))
                if isinstance(event.action, Run) and event.action.node in report.skipped:
                    ended.add(index)
                    continue
                started[index] = self._start(plan, event.action)
            self._await_one(started)
            for index in [index for index, event in started.items() if not event.waiting]:
                self._finish(plan, started.pop(index), report)
                ended.add(index)
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

    def _start(self, plan: Plan, action: Action) -> _Started:
        started = _Started(action, {}, {}, time.perf_counter(), [], {})
        match action:
            case Run(node=name):
                self._start_run(plan.graph, plan.graph.nodes[name], started)
            case SyncWeights(trainer=trainer, sampler=sampler):
                packed = [w.weights.remote(trainer) for w in self.homes[trainer].workers]
                targets = self.homes[sampler].workers
                loads = [w.load_weights.remote(sampler, packed[0]) for w in targets]
                started.waiting = {ref: i for i, ref in enumerate([*loads, *packed[1:]])}
            case Wake(resident=name) | Sleep(resident=name):
                method = "wake" if isinstance(action, Wake) else "sleep"
                workers = self.homes[name].workers
                started.waiting = {w.call.remote(name, method): i for i, w in enumerate(workers)}
        return started

    def _start_run(self, graph: Graph, node: Node, started: _Started) -> None:
        if node.name in self.injected:
            assert node.function.result is not None
            self.values[node.name] = put(self.injected[node.name], node.function.result)
            return
        pool = self.homes[node.resident.name] if node.resident else self.pools[HOST]
        inputs = {port: self.values[value.node.name] for port, value in node.inputs.items()}
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
            result, receipt = call.remote(_key(graph), node.name, arguments, keep)
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
            late = ", ".join(label(event.action) for event in started.values())
            raise EngineError(f"no answer after {RUN_TIMEOUT:.0f} s from: {late}")
        event = refs[ready[0]]
        number = event.waiting.pop(ready[0])
        doing = f"{label(event.action)} on worker {number}"
        try:
            event.answers[number] = ray.get(ready[0], timeout=RUN_TIMEOUT)
        except RayTaskError as failure:
            raise explain(failure, doing) from None
        except RayActorError as failure:
            raise EngineError(f"{doing}: the worker process died: {failure}") from None

    def _finish(self, plan: Plan, started: _Started, report: StepReport) -> None:
        took = time.perf_counter() - started.began
        if isinstance(started.action, Run) and started.answers:
            receipts: list[Receipt] = [started.answers[i] for i in sorted(started.answers)]
            took = max(receipt.seconds for receipt in receipts)
            for receipt in receipts:
                merge_into(report.metrics, receipt.metrics)
            node = plan.graph.nodes[started.action.node]
            if any(receipt.another_round for receipt in receipts):
                report.skipped |= {node.name} | plan.graph.dependents(node.name)
            elif (kind := node.function.result) is not None:
                inputs = [self.values[value.node.name] for value in node.inputs.values()]
                given = sorted(started.results)
                self.values[node.name] = combine(
                    kind,
                    [started.results[number] for number in given],
                    [started.answers[number] for number in given],
                    [started.shards[number] for number in given],
                    inputs,
                )
        report.seconds[label(started.action)] = took


def _key(graph: Graph) -> str:
    return f"{graph.name}@{id(graph)}"
