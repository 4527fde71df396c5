"""The cost of the scheduler: a chain of seven nodes that do nothing.

Peers: on the local executor none; on Ray the same calls written by hand, one
``ray.get(actor.method.remote(...))`` after the other, on a plain actor. With a large
payload the hand-written side passes references on, as the executor does.

Both sides take turns, so that what else the machine does falls on both.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import ray
import torch
import tyro
from jaxtyping import Float
from load import Load
from rich.console import Console
from rich.table import Table
from torch import Tensor

from rlgraph import Graph, Split, node
from rlgraph.executors.local import LocalExecutor
from rlgraph.executors.ray import RayExecutor
from rlgraph.models import Stateful
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.modes import place
from rlgraph.scheduling.plan import Plan
from rlgraph.scheduling.planner import plan_step
from rlgraph.settings import RunContext

NODES = 7
SMALL, LARGE = 4, 1 << 24
"""Numbers of four bytes; the large payload is 64 MiB."""


@dataclass(frozen=True)
class Settings:
    """How long to measure."""

    repetitions: int = 200
    """Steps with a small payload; each runs seven nodes."""
    large_repetitions: int = 20
    """Steps with the 64 MB payload."""


class Payload:
    """A state that only holds what goes down the chain; made once, so that this is not measured."""

    def __init__(self) -> None:
        self.held: dict[int, Tensor] = {}

    def of(self, size: int) -> Tensor:
        """Two rows of ones, ``size`` numbers in all."""
        if size not in self.held:
            self.held[size] = torch.ones(2, size // 2)
        return self.held[size]

    def state_dict(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to take over."""


PAYLOAD = Stateful("payload", Payload, Payload)
RESIDENT = PAYLOAD.roles[Payload]
NO_DEVICES = place({}, "colocate", Devices("cpu", 1, None))


@node
def begin(payload: Payload, *, size: int) -> Float[Tensor, "batch width"]:
    """The payload."""
    return payload.of(size)


@node(split=Split.ROWS)
def touch(x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
    """Nothing."""
    return x


class ByHand:
    """What a researcher writes without a framework."""

    def __init__(self) -> None:
        self.payload = Payload()

    def begin(self, size: int) -> np.ndarray:
        """The payload as an array, which Ray moves fastest."""
        return self.payload.of(size).numpy()

    def begin_tensor(self, size: int) -> Tensor:
        """The payload as it is."""
        return self.payload.of(size)

    def touch(self, x: Any) -> Any:
        """Nothing."""
        return x


def chain(size: int) -> Plan:
    """The plan of seven nodes in a row."""
    with Graph(f"chain of {size}") as graph:
        value = begin(PAYLOAD, size=size)
        for _ in range(NODES - 1):
            value = touch(value)
    return plan_step(graph, NO_DEVICES, {})


def alternate(sides: dict[str, Callable[[], object]], repetitions: int) -> dict[str, list[float]]:
    """Seconds per node of each side, one measurement a repetition, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        for _ in range(3):
            side()
    for _ in range(repetitions):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            seconds[name].append((time.perf_counter() - began) / NODES)
    return seconds


def without_ray(repetitions: int) -> dict[str, list[float]]:
    """Nodes in this process, and the same functions called without their checks."""
    executor, plan = LocalExecutor({PAYLOAD.name: RESIDENT}, RunContext()), chain(SMALL)
    payload = executor.engines[PAYLOAD.name]

    def bare() -> None:
        value = begin.function(payload, size=SMALL)
        for _ in range(NODES - 1):
            value = touch.function(value)

    return alternate({"executor": lambda: executor.run(plan), "plain calls": bare}, repetitions)


def with_ray(settings: Settings) -> tuple[dict[str, list[float]], dict[str, list[float]], float]:
    """Small and large payload; and by how many bytes the controller grew meanwhile."""
    executor = RayExecutor({PAYLOAD.name: RESIDENT}, NO_DEVICES, RunContext())
    try:
        actor = ray.remote(num_cpus=0)(ByHand).remote()

        def one_by_one() -> None:
            value = ray.get(actor.begin.remote(SMALL))
            for _ in range(NODES - 1):
                value = ray.get(actor.touch.remote(value))

        def passed_on(kind: str) -> None:
            reference = getattr(actor, f"begin{kind}").remote(LARGE)
            ray.wait([reference], fetch_local=False)
            for _ in range(NODES - 1):
                reference = actor.touch.remote(reference)
                ray.wait([reference], fetch_local=False)

        small, large = chain(SMALL), chain(LARGE)
        little = alternate(
            {"executor": lambda: executor.run(small), "by hand": one_by_one},
            settings.repetitions,
        )
        controller = psutil.Process()
        before = controller.memory_info().rss
        much = alternate(
            {
                "executor": lambda: executor.run(large),
                "by hand, numpy": lambda: passed_on(""),
                "by hand, torch": lambda: passed_on("_tensor"),
            },
            settings.large_repetitions,
        )
        return little, much, controller.memory_info().rss - before
    finally:
        executor.close()


def main(settings: Settings) -> None:
    """Measure and print."""
    load = Load()
    table = Table("where", "side", "per node", "middle half", "executor / side")
    table.title = f"{NODES} nodes that do nothing, medians"
    local = without_ray(settings.repetitions * 5)
    little, much, growth = with_ray(settings)
    for where, sides, unit, factor in (
        ("this process", local, "µs", 1e6),
        ("Ray, 16 bytes", little, "ms", 1e3),
        ("Ray, 64 MiB", much, "ms", 1e3),
    ):
        table.add_section()
        ours = statistics.median(next(iter(sides.values())))
        for name, seconds in sides.items():
            low, middle, high = (factor * s for s in statistics.quantiles(seconds, n=4))
            ratio = f"{ours / statistics.median(seconds):.2f}"
            table.add_row(where, name, f"{middle:.2f} {unit}", f"{low:.2f} to {high:.2f}", ratio)
    console = Console()
    console.print(table)
    verdict = "none passed through it" if growth < 4 * LARGE else "the payload passed through it"
    console.print(f"controller memory over the 64 MiB steps: {growth / 2**20:+.1f} MiB: {verdict}")
    console.print(load)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
