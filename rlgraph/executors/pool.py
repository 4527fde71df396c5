"""Pools: the worker processes behind one resident, started and addressed together."""

import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rlgraph.errors import EngineError, PlacementError, RlgraphError
from rlgraph.executors.worker import Worker
from rlgraph.models import Resident
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.placement import Placement, width_of, workers_of
from rlgraph.scheduling.plan import HOST
from rlgraph.settings import RunContext

START_TIMEOUT = 600.0
"""Seconds that engines may take to load."""


@dataclass
class Pool:
    """Workers that hold the same residents; the pool named ``host`` all that need no device."""

    name: str
    residents: list[Resident]
    workers: list[Any]
    ranked: bool
    """Do the workers act as one (ranks of a trainer), or each for itself?"""
    group: PlacementGroup | None = None
    """The devices that they share with the other pools of their set."""
    memory: Memory | None = None
    """What each device of the resident was found to hold."""
    nodes: list[str] = field(default_factory=list)
    """Ray's id of each worker's host."""


def start_pools(
    residents: Mapping[str, Resident],
    placement: Placement,
    context: RunContext,
    host_workers: int,
    crowded: Collection[str],
    timeout: float,
) -> dict[str, Pool]:
    """Start every worker process, then load every engine.

    All side by side, but for those in ``crowded``: where not all of a device set fit at
    once, each sleeps before the next is loaded.

    Raises:
        PlacementError: Ray has not the resources free.
        EngineError: a process died, or loading took longer than the timeout.
        RlgraphError: an engine refused its settings.
    """
    groups = {
        name: _reserve(placement, name) for name in placement.sets if placement.sets[name].devices
    }
    pools: dict[str, Pool] = {}
    for name, resident in sorted(residents.items()):
        if name in placement.homes:
            pools[name] = _device_pool(resident, placement, groups[placement.homes[name]])
    on_host = [residents[name] for name in sorted(residents) if name not in placement.homes]
    hosts = [_actor({}, _environment(1)) for _ in range(host_workers)]
    pools[HOST] = Pool(HOST, on_host, hosts, ranked=False)
    turns = {name: placement.tenants(placement.homes[name]).index(name) for name in crowded}
    for turn in range(max(turns.values(), default=0) + 1):
        _load(
            [p for p in pools.values() if turns.get(p.name, 0) == turn], context, crowded, timeout
        )
    return pools


def _load(
    pools: Collection[Pool], context: RunContext, crowded: Collection[str], timeout: float
) -> None:
    """Load the engines of these pools at the same time, and measure them."""
    loading = []
    for pool in pools:
        calls = zip(pool.workers, _rendezvous(pool), strict=True)
        refs = [w.build.remote(pool.residents, context, environment) for w, environment in calls]
        loading.append((pool, refs))
    for pool, refs in loading:
        pool.nodes = [answer(ref, f"loading {pool.name}", timeout) for ref in refs]
    for pool in pools:
        if pool.name == HOST:
            continue
        (resident,) = pool.residents
        settling = [
            worker.settle.remote(resident, pool.name in crowded, resident.follows is not None)
            for worker in pool.workers
        ]
        found = [answer(ref, f"measuring {pool.name}", timeout) for ref in settling]
        pool.memory = max(found, key=lambda memory: memory.awake)


def answer(ref: Any, doing: str, timeout: float) -> Any:
    """Wait for a worker's answer; what goes wrong says what was being done.

    Raises:
        EngineError: no answer in time, or the worker died or failed.
        RlgraphError: the worker raised it.
    """
    try:
        return ray.get(ref, timeout=timeout)
    except GetTimeoutError:
        raise EngineError(f"{doing}: no answer after {timeout:.0f} s") from None
    except RayTaskError as failure:
        raise explain(failure, doing) from None
    except RayActorError as failure:
        raise EngineError(f"{doing}: the worker process died: {failure}") from None


def explain(failure: RayTaskError, doing: str) -> RlgraphError:
    """An error of ours is passed on as it is; anything else comes with its traceback."""
    cause = failure.cause
    notes = "; ".join(getattr(cause, "__notes__", []))
    if isinstance(cause, RlgraphError):
        return type(cause)(f"{cause}" + (f" ({notes})" if notes else ""))
    return EngineError(f"{doing} failed: {notes}\n{failure}")


def _reserve(placement: Placement, name: str) -> PlacementGroup:
    bundle = {"CPU": 1.0} | ({"GPU": 1.0} if placement.devices.kind == "gpu" else {})
    wanted = placement.sets[name]
    strategy = "SPREAD" if wanted.spread else "PACK"
    group = placement_group([bundle] * wanted.devices, strategy=strategy)
    if not group.wait(timeout_seconds=60):
        free = {key: value for key, value in ray.available_resources().items() if key in bundle}
        raise PlacementError(
            f"device set '{name}' needs {wanted.devices} x {bundle}, but Ray has "
            f"{free} free after 60 s; end other jobs, or lower the ranks and engines"
        )
    return group


def _device_pool(resident: Resident, placement: Placement, group: PlacementGroup) -> Pool:
    count = workers_of(resident)
    home = placement.homes[resident.name]
    # A bundle's device is shared by the set's tenants; Ray counts in hundredths.
    share = int(100 / len(placement.tenants(home))) / 100
    width = width_of(resident)
    threads = max(1, (os.cpu_count() or 1) // count)
    workers = []
    for number in range(count):
        options: dict[str, Any] = {
            "num_cpus": share,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                group,
                placement_group_bundle_index=number * width,
                placement_group_capture_child_tasks=True,
            ),
        }
        environment = _environment(threads)
        if placement.devices.kind == "gpu":
            # With tensor parallelism vLLM starts a worker per bundle; it holds the GPUs.
            options["num_gpus"] = share if width == 1 else 0
            bundles = ",".join(str(number * width + i) for i in range(width))
            environment |= {
                "VLLM_RAY_BUNDLE_INDICES": bundles,
                "VLLM_RAY_PER_WORKER_GPUS": str(share),
            }
        workers.append(_actor(options, environment))
    ranked = resident.kind in ("trainer", "scorer")
    return Pool(resident.name, [resident], workers, ranked, group)


def _actor(options: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    actor = ray.remote(num_cpus=0)(Worker).options(**options)
    return actor.remote(dict(environment))


def _environment(threads: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}


def _rendezvous(pool: Pool) -> Iterable[dict[str, str]]:
    """What torch.distributed wants to know, one for each rank."""
    if not pool.ranked:
        return [{} for _ in pool.workers]
    host, port = answer(pool.workers[0].address.remote(), f"starting {pool.name}", START_TIMEOUT)
    meet = {"MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": str(len(pool.workers))}
    return [{**meet, "RANK": str(rank), "LOCAL_RANK": "0"} for rank in range(len(pool.workers))]


def stop_pools(pools: Collection[Pool], patience: float = 10.0) -> None:
    """Ask every worker to close, end those that have not, and give their devices back."""
    workers = [worker for pool in pools for worker in pool.workers]
    closing = [worker.close.remote() for worker in workers]
    deadline = time.monotonic() + patience
    ray.wait(closing, num_returns=len(closing), timeout=max(0.0, deadline - time.monotonic()))
    for worker in workers:
        ray.kill(worker)
    for group in {pool.group.id: pool.group for pool in pools if pool.group}.values():
        remove_placement_group(group)
