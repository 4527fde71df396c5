"""The Ray cluster that a run lives on: its own on this machine, or one that is there."""

import os
import socket
import sys
from typing import Any

import ray
from ray import cloudpickle

from rlgraph.errors import PlacementError
from rlgraph.scheduling.devices import Devices, Host
from rlgraph.sourcefile import LOADED

KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""glibc's malloc: a worker keeps what its activations held, at most half a GiB.

Else each forward pass gives it back to the system and has it cleared again, page by
page, which on a CPU takes a third of the time.
"""


PROBE_TIMEOUT = 120.0
"""Seconds that a GPU of the cluster may take to say how large it is."""


def ship_source_files() -> None:
    """Let what a user's own file defines travel to workers, which cannot import the file."""
    for module in LOADED.values():
        cloudpickle.register_pickle_by_value(module)


def connect(slots: int) -> bool:
    """Start Ray on this machine with at least ``slots`` CPUs, or join ``RAY_ADDRESS``'s cluster.

    Did we start one?

    Raises:
        PlacementError: the cluster does not answer.
    """
    ship_source_files()
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS")
    if address is not None:
        _check_reachable(address)
    # Workers find what this process finds: a user's graph file and its neighbours.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    options: dict[str, Any] = {
        "runtime_env": {"env_vars": {"PYTHONPATH": path, **KEEP_MEMORY}},
        "log_to_driver": False,
        "logging_level": "ERROR",
    }
    if address is None:
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


def joined(count: int | None, memory: int | None) -> Devices | None:
    """The devices of the cluster that ``RAY_ADDRESS`` names; None without one.

    Raises:
        PlacementError: the cluster does not answer, or has fewer devices than ``count``.
    """
    if "RAY_ADDRESS" not in os.environ and not ray.is_initialized():
        return None
    connect(0)
    alive = [node for node in ray.nodes() if node["Alive"]]
    on_gpu = any(node["Resources"].get("GPU") for node in alive)
    unit = "GPU" if on_gpu else "CPU"
    hosts = tuple(
        Host(
            node["NodeManagerHostname"],
            int(node["Resources"].get(unit, 0)),
            int(node["Resources"].get("memory", 0)),
        )
        for node in sorted(alive, key=lambda node: node["NodeID"])
    )
    found = sum(host.devices for host in hosts)
    if (count or 1) > found:
        raise PlacementError(f"--devices {count or 1}: the cluster has {found} {unit}s")
    if on_gpu and memory is None:
        probe = ray.remote(num_gpus=1)(_gpu_memory).remote()
        memory = ray.get(probe, timeout=PROBE_TIMEOUT)
    return Devices("gpu" if on_gpu else "cpu", count or found, memory, hosts)


def _gpu_memory() -> int:
    import torch

    return torch.cuda.get_device_properties(0).total_memory


def _check_reachable(address: str) -> None:
    """Ray itself waits for minutes before it says that nobody answers."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # "auto" and the like
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise PlacementError(
            f"no Ray answers at RAY_ADDRESS={address}: {error}; start it there, or unset "
            "RAY_ADDRESS to use a Ray of this run's own"
        ) from None
