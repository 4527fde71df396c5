"""A process that holds engines and runs nodes on them."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
import torch

from rlgraph import rows, wire
from rlgraph.engines.build import build_engine
from rlgraph.errors import AnotherRound
from rlgraph.executors.residency import change, settle
from rlgraph.executors.transit import Argument, Receipt, gather
from rlgraph.metrics import collect
from rlgraph.models import Resident
from rlgraph.node import NodeFunction
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.plan import Sleep, Wake
from rlgraph.settings import RunContext

FETCH_TIMEOUT = 600.0
"""Seconds that the rows of a call may take to arrive from other hosts."""


@dataclass(frozen=True)
class Task:
    """A node as a worker knows it: what never changes from step to step."""

    name: str
    where: str
    function: NodeFunction
    constants: Mapping[str, Any]
    resident: str | None


class Worker:
    """Made into a Ray actor by the executor."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Before anything reads them: thread counts and ranks are looked at on import.
        os.environ.update(environment)
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
        self.engines: dict[str, Any] = {}
        self.tasks: dict[tuple[str, str], Task] = {}

    def address(self) -> tuple[str, int]:
        """This host, and a port that is free on it, for torch.distributed to meet at."""
        host = ray.util.get_node_ip_address()
        with socket.socket() as probe:
            probe.bind((host, 0))
            return host, probe.getsockname()[1]

    def build(
        self, residents: list[Resident], context: RunContext, environment: Mapping[str, str]
    ) -> str:
        """Load the engines; Ray's id of the host that they are on."""
        os.environ.update(environment)
        for resident in residents:
            self.engines[resident.name] = build_engine(resident, context, "ray")
        return ray.get_runtime_context().get_node_id()

    def learn(self, graph: str, tasks: list[Task]) -> None:
        """Keep the nodes of a graph, so that a call need only name one."""
        self.tasks.update({(graph, task.name): task for task in tasks})

    def run(
        self, graph: str, node: str, arguments: Mapping[str, Argument], keep: bool
    ) -> tuple[wire.Packed | None, Receipt]:
        """Run a node on the rows that ``arguments`` point to; ``keep`` its result or not."""
        task = self.tasks[graph, node]
        given = gather(arguments, FETCH_TIMEOUT)
        began = time.perf_counter()
        call: dict[str, Any] = {**task.constants, **given}
        if task.resident is not None and task.function.role is not None:
            call[task.function.role.name] = self.engines[task.resident]
        with collect() as metrics:
            try:
                result = task.function.run(call)
            except AnotherRound:
                seconds = time.perf_counter() - began
                return None, Receipt(None, None, None, metrics, seconds, another_round=True)
            except Exception as error:
                error.add_note(f"in node {node}, made at {task.where}")
                raise
        seconds = time.perf_counter() - began
        if result is None or not keep:
            return None, Receipt(None, None, None, metrics, seconds)
        kind = task.function.result
        count = len(result) if kind is not None and rows.is_batched(kind) else None
        return wire.pack(result), Receipt(count, *rows.labels(result), metrics, seconds)

    def settle(self, resident: Resident, asleep: bool, discard: bool) -> Memory:
        """Measure an engine, and leave it ``asleep``, if it is to be."""
        return settle(self.engines[resident.name], resident, asleep=asleep, discard=discard)

    def change(self, action: Sleep | Wake) -> None:
        """Put an engine to sleep, or wake it."""
        change(self.engines[action.resident], action)

    def weights(self, resident: str) -> Any:
        """A trainer's parameters, packed; every rank takes part, the first one answers."""
        return wire.pack_weights(self.engines[resident].weights())

    def load_weights(self, resident: str, packed: Any) -> None:
        """Hand parameters to a sampler."""
        self.engines[resident].load_weights(wire.unpack_weights(packed))

    def call(self, resident: str, method: str, *args: Any) -> Any:
        """Call a method of an engine."""
        return getattr(self.engines[resident], method)(*args)

    def close(self) -> None:
        """Let every engine end what it started."""
        for engine in self.engines.values():
            if hasattr(engine, "close"):
                engine.close()
