"""What there is to place residents on."""

import os
import re
from dataclasses import dataclass
from typing import Literal

import psutil
import torch

from rlgraph.errors import PlacementError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Host:
    """One machine."""

    name: str
    devices: int
    """Its GPUs; without any, its CPU slots."""
    memory: int
    """Bytes of main memory."""


@dataclass(frozen=True)
class Devices:
    """Alike devices, on one host or several.

    Without GPUs a device is a CPU slot: a place with a memory budget, of which there
    may be more than cores.
    """

    kind: Literal["cpu", "gpu"]
    count: int
    memory: int | None
    """Bytes per device that residents may fill; None for no limit."""
    hosts: tuple[Host, ...] = ()
    """Where they are; empty if nobody asked."""

    @classmethod
    def here(cls, count: int | None = None, memory: int | None = None) -> "Devices":
        """``count`` GPUs of this machine, or all; without any, CPU slots, one per core.

        ``memory`` lowers what residents may fill of each.

        Raises:
            PlacementError: there are fewer GPUs, or each has less memory.
        """
        main = psutil.virtual_memory().total
        if not torch.cuda.is_available():
            slots = os.cpu_count() or 1 if count is None else count
            return cls("cpu", _positive(slots), memory, (Host("this machine", slots, main),))
        found = torch.cuda.device_count()
        if count is not None and count > found:
            raise PlacementError(f"--devices {count}: this machine has {found} GPUs")
        has = torch.cuda.get_device_properties(0).total_memory
        if memory is not None and memory > has:
            raise PlacementError(
                f"--device-memory: {memory / 2**30:.1f} GiB, but a GPU here has {has / 2**30:.1f}"
            )
        used = found if count is None else count
        host = Host("this machine", found, main)
        return cls("gpu", _positive(used), has if memory is None else memory, (host,))


def _positive(count: int) -> int:
    if count < 1:
        raise PlacementError(f"--devices {count}: it must be at least 1")
    return count


def parse_size(text: str) -> int:
    """Bytes from ``2GiB``, ``512 MiB`` or ``800M``; units are powers of 1024.

    Raises:
        PlacementError: the text says no positive size.

    >>> parse_size("1.5GiB") == 3 << 29
    True
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise PlacementError(f"--device-memory {text!r} is no size; write 2GiB or 512MiB")
    return size
