"""What to say when the residents of a device set do not fit, and what to do about it."""

from collections.abc import Mapping

from rlgraph.errors import PlacementError
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.placement import Placement
from rlgraph.scheduling.plan import Action, Run, label


def shortage(
    action: Action,
    levels: Mapping[str, int],
    home: str,
    memory: Mapping[str, Memory],
    placement: Placement,
    missing: int,
) -> PlacementError:
    """The error of an action whose needs do not fit beside the sleeping rest of its set.

    Args:
        action: what cannot be done.
        levels: the residents that it needs, and how much of each.
        home: the device set.
        memory: of all the set's residents.
        placement: where everyone lives.
        missing: bytes per device.
    """
    asleep = sum(size.asleep for name, size in memory.items() if name not in levels)
    listing = " and ".join(
        f"{name} with {_size(memory[name].levels[level])}" for name, level in levels.items()
    )
    rest = f", beside {_size(asleep)} of sleeping residents" if asleep else ""
    budget = placement.devices.memory or 0
    what = f"node {action.node}" if isinstance(action, Run) else label(action)
    cures = " or ".join(_cures(levels, home, placement, budget + missing))
    return PlacementError(
        f"{what} needs {listing} awake on each device of set '{home}'{rest}, but a device has "
        f"{_size(budget)}: it is short of {_size(missing)}; try {cures}"
    )


def _cures(levels: Mapping[str, int], home: str, placement: Placement, enough: int) -> list[str]:
    on_gpu = placement.devices.kind == "gpu"
    cures = []
    if any(name.endswith(".sampler") for name in levels):
        cures.append(
            f"a lower --policy.sampler.{'gpu-memory-fraction' if on_gpu else 'kv-cache-mib'},"
        )
    if not on_gpu:
        cures.append(f"--device-memory {-(-enough // 2**20)}MiB,")
    if len(placement.tenants(home)) > 1:
        cures.append("--placement split,")
    return [*cures, "more trainer ranks with a higher ZeRO stage"]


def _size(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 // 10 else f"{size / 2**20:.1f} MiB"
