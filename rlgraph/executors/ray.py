"""Plans on Ray: worker pools run the nodes, the controller moves references."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError, RayTaskError

from rlgraph import rows as rows_module
from rlgraph import wire
from rlgraph.errors import EngineError, PlacementError
from rlgraph.executors import StepReport
from rlgraph.executors.pool import (
    HOST,
    START_TIMEOUT,
    Pool,
    answer,
    explain,
    start_pools,
    stop_pools,
)
from rlgraph.executors.shards import Distributed, Piece, argument, shares
from rlgraph.executors.worker import Receipt, Task
from rlgraph.graph import Graph, Node
from rlgraph.metrics import merge_into
from rlgraph.models import Resident
from rlgraph.node import Split
from rlgraph.placement import Placement
from rlgraph.plan import Action, Plan, Run, Sleep, SyncWeights, Wake
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
    results: list[Any]


class RayExecutor:
    """Runs plans on a Ray cluster: one on this machine, or that of ``RAY_ADDRESS``.

    Raises:
        PlacementError: Ray cannot be reached, or has not the resources free.
        EngineError: a worker process died while it loaded its engines.
    """

    def __init__(
        self, residents: Mapping[str, Resident], placement: Placement, context: RunContext
    ) -> None:
        self._own_ray = connect(placement)
        self.values: dict[str, Distributed] = {}
        self.injected: dict[str, Rows] = {}
        self.known: set[str] = set()
        self.pools: dict[str, Pool] = {}
        try:
            self.pools = start_pools(residents, placement, context, START_TIMEOUT)
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
                started[index] = self._start(plan, event.action)
            self._await_one(started)
            for index in [index for index, event in started.items() if not event.waiting]:
                self._finish(plan, started.pop(index), report)
                ended.add(index)
        self.injected = {}
        return report

    def fetch(self, node: str, rows: int | None = None) -> Rows:
        """What a node gave in the latest run: all of it, or its first rows."""
        value = self.values[node]
        wanted = np.arange(value.rows if rows is None else min(rows, value.rows or 0))
        gather = argument(value, None, value.kind, wanted)
        packed = ray.get([piece.ref for piece in gather.slices], timeout=RUN_TIMEOUT)
        parts = [
            piece.unpack(slice_.rows) for piece, slice_ in zip(packed, gather.slices, strict=True)
        ]
        joined = rows_module.join(parts, value.kind)
        return joined if gather.order is None else joined[gather.order]

    def call(self, resident: str, method: str, *args: Any) -> Any:
        """Call a method of a resident's engine on all its workers; the first one's answer."""
        refs = [
            worker.call.remote(resident, method, *args) for worker in self.homes[resident].workers
        ]
        return [answer(ref, f"{method} of {resident}", RUN_TIMEOUT) for ref in refs][0]

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
        refs = []
        for pool in self.pools.values():
            names = {resident.name for resident in pool.residents}
            tasks = [
                Task(node.name, node.where, node.function, node.constants, resident)
                for node in graph.nodes.values()
                for resident in [node.resident.name if node.resident else None]
                if resident in names or (resident is None and pool.name == HOST)
            ]
            refs += [worker.learn.remote(key, tasks) for worker in pool.workers]
        for ref in refs:
            answer(ref, f"sending graph {graph.name} to the workers", START_TIMEOUT)
        self.known.add(key)

    def _start(self, plan: Plan, action: Action) -> _Started:
        started = _Started(action, {}, {}, time.perf_counter(), [], [])
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
            self.values[node.name] = put(self.injected[node.name], node)
            return
        pool = self.homes[node.resident.name] if node.resident else self.pools[HOST]
        inputs = {port: self.values[value.node.name] for port, value in node.inputs.items()}
        count = _count_rows(node, inputs)
        split = node.function.split
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
                port: argument(inputs[port], value.field, value.type, shard)
                for port, value in node.inputs.items()
            }
            keep = node.function.result is not None and (split is not Split.NEVER or number == 0)
            call = pool.workers[number].run.options(num_returns=2)
            result, receipt = call.remote(_key(graph), node.name, arguments, keep)
            started.results.append(result)
            started.waiting[receipt] = number

    def _await_one(self, started: dict[int, _Started]) -> None:
        """Wait until some event gets an answer; collect it."""
        refs = {ref: event for event in started.values() for ref in event.waiting}
        if not refs or any(not event.waiting for event in started.values()):
            return
        oldest = min(event.began for event in started.values())
        patience = max(0.0, RUN_TIMEOUT - (time.perf_counter() - oldest))
        ready, _ = ray.wait(list(refs), num_returns=1, timeout=patience)
        if not ready:
            late = ", ".join(_label(event.action) for event in started.values())
            raise EngineError(f"no answer after {RUN_TIMEOUT:.0f} s from: {late}")
        event = refs[ready[0]]
        number = event.waiting.pop(ready[0])
        doing = f"{_label(event.action)} on worker {number}"
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
            if node.function.result is not None:
                inputs = [self.values[value.node.name] for value in node.inputs.values()]
                self.values[node.name] = _result(node, started, receipts, inputs)
        report.seconds[_label(started.action)] = took


def connect(placement: Placement) -> bool:
    """Start Ray on this machine, or join the cluster of ``RAY_ADDRESS``; did we start one?

    Raises:
        PlacementError: the cluster does not answer.
    """
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS")
    # Workers find what this process finds: a user's graph file and its neighbours.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    options: dict[str, Any] = {
        "runtime_env": {"env_vars": {"PYTHONPATH": path}},
        "log_to_driver": False,
        "logging_level": "ERROR",
    }
    if address is None:
        slots = sum(device_set.devices for device_set in placement.sets.values())
        options |= {"address": "local", "include_dashboard": False}
        options |= {"num_cpus": max(slots, os.cpu_count() or 1)}
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PlacementError(
            f"Ray does not start or answer ({address or 'on this machine'}): {error}; "
            "unset RAY_ADDRESS to use a Ray of this run's own"
        ) from None
    return address is None


def put(value: Rows, node: Node) -> Distributed:
    """A value of this process, as if ``node`` had given it."""
    kind = node.function.result
    assert kind is not None
    rows = len(value) if rows_module.is_batched(kind) else None
    mask, group = (getattr(value, name, None) for name in ("attention_mask", "group"))
    return Distributed(
        kind,
        [Piece(ray.put(wire.pack(value)), None if rows is None else np.arange(rows))],
        rows,
        None if mask is None else mask.sum(-1).numpy(),
        None if group is None else group.numpy(),
    )


def _count_rows(node: Node, inputs: Mapping[str, Distributed]) -> int | None:
    """How many rows go in; None if no input has any.

    Raises:
        EngineError: the inputs disagree.
    """
    counts = {port: value.rows for port, value in inputs.items() if value.rows is not None}
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{port} has {count}" for port, count in counts.items())
        raise EngineError(f"{node.where}: {node.name}: its inputs differ in rows: {listing}")
    return next(iter(counts.values()), None)


def _result(
    node: Node, started: _Started, receipts: list[Receipt], inputs: list[Distributed]
) -> Distributed:
    kind = node.function.result
    assert kind is not None
    given = [(r, ref) for r, ref in zip(receipts, started.results, strict=True) if r.rows is not None]
    if not given:
        return Distributed(kind, [Piece(started.results[0], None)], None)
    counts = [receipt.rows or 0 for receipt, _ in given]
    kept = [len(shard) for shard in started.shards[: len(given)]] == counts
    if kept and inputs:
        positions = started.shards[: len(given)]
    else:
        ends = np.cumsum([0, *counts])
        positions = [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    pieces = [Piece(ref, where) for (_, ref), where in zip(given, positions, strict=True)]
    total = sum(counts)
    same = [value for value in inputs if value.rows == total] if kept else []
    return Distributed(
        kind,
        pieces,
        total,
        _spread([r.lengths for r, _ in given], positions, total)
        if given[0][0].lengths is not None
        else next((v.lengths for v in same if v.lengths is not None), None),
        _spread([r.groups for r, _ in given], positions, total)
        if given[0][0].groups is not None
        else next((v.groups for v in same if v.groups is not None), None),
    )


def _spread(parts: list[Any], positions: list[np.ndarray], total: int) -> np.ndarray:
    """Per-shard arrays in batch order."""
    spread = np.empty(total, dtype=parts[0].dtype)
    for part, where in zip(parts, positions, strict=True):
        spread[where] = part
    return spread


def _label(action: Action) -> str:
    match action:
        case Run(node=name):
            return name
        case SyncWeights(sampler=sampler):
            return f"sync {sampler}"
        case Wake(resident=name):
            return f"wake {name}"
        case Sleep(resident=name):
            return f"sleep {name}"


def _key(graph: Graph) -> str:
    return f"{graph.name}@{id(graph)}"
