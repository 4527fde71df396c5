"""The Ray cluster that a run lives on: its own on this machine, or one that is there."""

import os
import socket
import sys
from typing import Any

import ray
from ray import cloudpickle

from rlgraph.errors import PlacementError
from rlgraph.placement import Placement
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


def ship_source_files() -> None:
    """Let what a user's own file defines travel to workers, which cannot import the file."""
    for module in LOADED.values():
        cloudpickle.register_pickle_by_value(module)


def connect(placement: Placement) -> bool:
    """Start Ray on this machine, or join the cluster of ``RAY_ADDRESS``; did we start one?

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
