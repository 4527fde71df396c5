"""Which devices each resident lives on, checked before anything starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from rlgraph.errors import PlacementError
from rlgraph.models import Resident

Mode = Literal["colocate", "split"]


@dataclass(frozen=True)
class Devices:
    """What there is to place residents on."""

    kind: Literal["cpu", "gpu"]
    count: int
    memory: int | None
    """Bytes per device that residents may fill; None for no limit."""

    @classmethod
    def here(cls, count: int | None = None) -> "Devices":
        """``count`` GPUs of this machine, or all; without any, CPU slots, one per core.

        Raises:
            PlacementError: there are fewer GPUs.
        """
        if not torch.cuda.is_available():
            return cls("cpu", count or os.cpu_count() or 1, None)
        found = torch.cuda.device_count()
        if count is not None and count > found:
            raise PlacementError(f"--devices {count}: this machine has {found} GPUs")
        return cls("gpu", count or found, torch.cuda.get_device_properties(0).total_memory)


@dataclass(frozen=True)
class DeviceSet:
    """Devices that are handed out together."""

    name: str
    devices: int


@dataclass(frozen=True)
class Placement:
    """Named device sets, and which resident lives on which."""

    sets: Mapping[str, DeviceSet]
    homes: Mapping[str, str]
    """Resident name to set name; residents that need no device are left out."""
    devices: Devices

    def home(self, resident: str) -> DeviceSet | None:
        """The devices of a resident; None if it lives in host memory."""
        return self.sets[self.homes[resident]] if resident in self.homes else None

    def tenants(self, name: str) -> list[str]:
        """The residents of a set, sorted."""
        return sorted(resident for resident, home in self.homes.items() if home == name)


def workers_of(resident: Resident) -> int:
    """How many processes hold a resident."""
    if resident.kind in ("trainer", "scorer"):
        return resident.settings.trainer.ranks
    return resident.settings.sampler.engines if resident.kind == "sampler" else 1


def devices_of(resident: Resident) -> int:
    """How many devices a resident spreads over; 0 if it needs none."""
    if resident.kind == "sampler":
        return workers_of(resident) * resident.settings.sampler.tensor_parallel
    return workers_of(resident) if resident.kind in ("trainer", "scorer") else 0


_FLAGS = {
    "trainer": "--{policy}.trainer.ranks",
    "scorer": "--policy.trainer.ranks",
    "sampler": "--{policy}.sampler.engines or --{policy}.sampler.tensor-parallel",
}


def place(residents: Mapping[str, Resident], mode: Mode, devices: Devices) -> Placement:
    """Residents onto device sets: one set for all, or one for each.

    Raises:
        PlacementError: there are too few devices; names the flag to change.
    """
    sizes = {name: devices_of(resident) for name, resident in sorted(residents.items())}
    needs = {name: size for name, size in sizes.items() if size}
    for name, size in needs.items():
        if size > devices.count:
            flag = _FLAGS[residents[name].kind].format(policy=name.split(".")[0])
            raise PlacementError(
                f"{name} needs {size} devices, but there are {devices.count} "
                f"{devices.kind.upper()}s; lower {flag} to at most {devices.count}"
            )
    if mode == "colocate":
        sets = {"shared": DeviceSet("shared", max(needs.values(), default=0))}
        return Placement(sets, dict.fromkeys(needs, "shared"), devices)
    if (total := sum(needs.values())) > devices.count:
        listing = ", ".join(f"{name} {size}" for name, size in needs.items())
        raise PlacementError(
            f"--placement split needs {total} devices ({listing}), but there are "
            f"{devices.count} {devices.kind.upper()}s; use --placement colocate"
        )
    sets = {name: DeviceSet(name, size) for name, size in needs.items()}
    return Placement(sets, {name: name for name in needs}, devices)
