"""Placements by name: everyone together, everyone alone, or in the usual groups."""

from collections.abc import Mapping
from typing import Literal

from rlgraph.errors import PlacementError
from rlgraph.models import Resident
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.placement import DeviceSet, Placement, devices_of

Mode = Literal["colocate", "split", "group"]

_FLAGS = {
    "trainer": "--{owner}.trainer.ranks",
    "scorer": "--policy.trainer.ranks",
    "sampler": "--{owner}.sampler.engines or --{owner}.sampler.tensor-parallel",
}


def place(residents: Mapping[str, Resident], mode: Mode, devices: Devices) -> Placement:
    """Residents onto device sets.

    ``colocate``: one set for all. ``split``: a set for each. ``group``: policy trainer
    and reference share a set, critic and reward models another, samplers have their own.

    Raises:
        PlacementError: there are too few devices; names the flag to change.
    """
    sizes = {name: devices_of(resident) for name, resident in sorted(residents.items())}
    needs = {name: size for name, size in sizes.items() if size}
    for name, size in needs.items():
        if size > devices.count:
            flag = flag_of(residents[name])
            raise PlacementError(
                f"{name} needs {size} devices, but there are {devices.count} "
                f"{devices.kind.upper()}s; lower {flag} to at most {devices.count}"
            )
    homes = {name: _home(residents[name], mode) for name in needs}
    sets = {
        home: DeviceSet(home, max(size for name, size in needs.items() if homes[name] == home))
        for home in sorted(set(homes.values()))
    }
    total = sum(device_set.devices for device_set in sets.values())
    if total > devices.count:
        listing = ", ".join(f"{name} {device_set.devices}" for name, device_set in sets.items())
        others = "group or colocate" if mode == "split" else "colocate"
        slots = "" if devices.kind == "gpu" else f", or allow --devices {total}"
        raise PlacementError(
            f"--placement {mode} needs {total} devices ({listing}), but there are "
            f"{devices.count} {devices.kind.upper()}s; use --placement {others}{slots}"
        )
    return Placement(sets, homes, devices)


def flag_of(resident: Resident) -> str:
    """The setting that says how many devices a resident wants."""
    owner = resident.name.split(".")[0]
    return _FLAGS.get(resident.kind, "its workers").format(owner=owner)


def _home(resident: Resident, mode: Mode) -> str:
    if mode == "colocate":
        return "shared"
    if mode == "split":
        return resident.name
    if resident.kind == "sampler":
        return "sampling"
    judges = resident.kind == "reward" or resident.head == "value"
    return "judging" if judges else "training"
