"""A placement written down by hand, as YAML::

    training:
      devices: 4
      residents:
        policy.trainer: {ranks: 4}
        reference: {ranks: 4}
    sampling:
      devices: 2
      spread: true
      residents:
        policy.sampler: {engines: 2, gpu_memory_fraction: 0.9}

Each set has a name of its own. What is said of a resident takes the place of the
settings that the graph was built with.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from rlgraph.errors import PlacementError
from rlgraph.models import Resident
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.modes import flag_of
from rlgraph.scheduling.placement import DeviceSet, Placement, devices_of

_SETTINGS = {
    "trainer": ("trainer", ("ranks", "zero_stage")),
    "scorer": ("trainer", ("ranks", "zero_stage")),
    "sampler": (
        "sampler",
        ("engines", "tensor_parallel", "gpu_memory_fraction", "kv_cache_mib"),
    ),
    "reward": (None, ()),
}
"""What may be said of a resident, by its kind, and in which section of its settings it lies."""


def read_placement(
    path: Path, residents: Mapping[str, Resident], devices: Devices
) -> tuple[Placement, dict[str, Resident]]:
    """The placement that a file describes, and the residents with its settings.

    Raises:
        PlacementError: the file cannot be read, a resident is unknown, missing or in two
            sets, a set is too small for one, or all sets together want too many devices.
    """
    sets: dict[str, DeviceSet] = {}
    homes: dict[str, str] = {}
    changed = dict(residents)
    for name, entry in _mapping(_load(path), f"{path}", "device sets").items():
        where = f"{path}: {name}"
        entry = _mapping(entry, where, "devices and residents")
        if unknown := entry.keys() - {"devices", "spread", "residents"}:
            raise PlacementError(
                f"{where}: unknown {', '.join(sorted(unknown))}; a set has devices, spread, "
                "residents"
            )
        tenants = entry.get("residents")
        if isinstance(tenants, list):
            tenants = dict.fromkeys(tenants)
        tenants = _mapping(tenants, f"{where}: residents", "residents")
        for tenant, settings in tenants.items():
            if tenant in homes:
                raise PlacementError(f"{where}: {tenant} is in set '{homes[tenant]}' already")
            changed[tenant] = _with(residents, tenant, settings or {}, where)
            homes[tenant] = name
        sets[name] = _set(name, entry, [changed[tenant] for tenant in tenants], where)
    if missing := [n for n in sorted(residents) if residents[n].on_device and n not in homes]:
        raise PlacementError(f"{path} places no {', '.join(missing)}; add them to a set")
    total = sum(device_set.devices for device_set in sets.values())
    if total > devices.count:
        listing = ", ".join(f"{name} {device_set.devices}" for name, device_set in sets.items())
        raise PlacementError(
            f"{path} wants {total} devices ({listing}), but there are {devices.count} "
            f"{devices.kind.upper()}s; make a set smaller, or put residents together"
        )
    return Placement(sets, homes, devices), changed


def _load(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise PlacementError(
            f"--placement {path}: {error.strerror}; give colocate, split, group, or a YAML file"
        ) from None
    except yaml.YAMLError as error:
        raise PlacementError(f"{path} is not YAML: {error}") from None


def _mapping(value: Any, where: str, of: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise PlacementError(f"{where}: a mapping of {of} is wanted, got {value!r}")
    return value


def _with(residents: Mapping[str, Resident], name: str, settings: Any, where: str) -> Resident:
    """A resident with what the file says of it."""
    if name not in residents or not residents[name].on_device:
        known = sorted(n for n, resident in residents.items() if resident.on_device)
        raise PlacementError(f"{where}: no resident '{name}'; there are {', '.join(known)}")
    if not isinstance(settings, dict):
        raise PlacementError(f"{where}: {name}: settings are wanted, got {settings!r}")
    resident = residents[name]
    section, allowed = _SETTINGS[resident.kind]
    for key, value in settings.items():
        if key not in allowed:
            has = f"it can be given {', '.join(allowed)}" if allowed else "it has no settings here"
            raise PlacementError(f"{where}: {name}: no setting '{key}'; {has}")
        number = float if key == "gpu_memory_fraction" else int
        if isinstance(value, bool) or not isinstance(value, number | int) or value < 0:
            raise PlacementError(f"{where}: {name}: {key} is {value!r}; a number is wanted")
    if section is None or not settings:
        return resident
    inner = replace(getattr(resident.settings, section), **settings)
    return replace(resident, settings=replace(resident.settings, **{section: inner}))


def _set(name: str, entry: dict[str, Any], tenants: list[Resident], where: str) -> DeviceSet:
    largest = max(tenants, key=devices_of)
    count = entry.get("devices", devices_of(largest))
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise PlacementError(f"{where}: devices is {count!r}; a positive number is wanted")
    if devices_of(largest) > count:
        raise PlacementError(
            f"{where}: {largest.name} needs {devices_of(largest)} devices, the set has {count}; "
            f"give it more, or lower {flag_of(largest)}"
        )
    spread = entry.get("spread", False)
    if not isinstance(spread, bool):
        raise PlacementError(f"{where}: spread is {spread!r}; true or false is wanted")
    return DeviceSet(name, count, spread)
