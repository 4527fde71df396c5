"""Which devices each resident lives on."""

from collections.abc import Mapping
from dataclasses import dataclass

from rlgraph.models import Resident
from rlgraph.scheduling.devices import Devices


@dataclass(frozen=True)
class DeviceSet:
    """Devices that are handed out together; its tenants share them."""

    name: str
    devices: int
    spread: bool = False
    """Over as many hosts as there are, instead of as few as possible."""


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


def width_of(resident: Resident) -> int:
    """How many devices one of those processes drives."""
    return resident.settings.sampler.tensor_parallel if resident.kind == "sampler" else 1


def devices_of(resident: Resident) -> int:
    """How many devices a resident spreads over; 0 if it needs none."""
    return workers_of(resident) * width_of(resident) if resident.on_device else 0
