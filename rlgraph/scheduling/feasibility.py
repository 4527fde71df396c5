"""Can these hosts hold what a placement puts on them? Asked before anything is started."""

from collections.abc import Mapping

from rlgraph.errors import PlacementError
from rlgraph.models import Resident
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.modes import flag_of
from rlgraph.scheduling.placement import Placement, devices_of, width_of


def crowded(placement: Placement, memory: Mapping[str, Memory]) -> frozenset[str]:
    """The residents of sets where not all can be awake at the same time."""
    budget = placement.devices.memory
    if budget is None:
        return frozenset()
    together = dict.fromkeys(placement.sets, 0)
    for name, home in placement.homes.items():
        together[home] += memory[name].awake
    return frozenset(name for name, home in placement.homes.items() if together[home] > budget)


def check_hosts(
    placement: Placement, residents: Mapping[str, Resident], memory: Mapping[str, Memory]
) -> None:
    """Raise a PlacementError if hosts lack devices or main memory.

    An engine that spreads its weights over devices wants them on one host. Main memory
    holds what sleeps and, where a device is a CPU slot, what is awake as well.
    """
    hosts = placement.devices.hosts
    if not hosts:
        return
    for name in sorted(placement.homes):
        width = width_of(residents[name])
        room = sum(host.devices // width for host in hosts)
        if room * width < devices_of(residents[name]):
            raise PlacementError(
                f"{name}: each of its engines needs {width} devices of one host; the hosts "
                f"({', '.join(f'{host.name}: {host.devices}' for host in hosts)}) have room for "
                f"{room}; lower {flag_of(residents[name])}"
            )
    wanted = _main_memory(placement, residents, memory)
    there = sum(host.memory for host in hosts)
    if wanted > there:
        largest = max(placement.homes, key=lambda name: memory[name].awake)
        raise PlacementError(
            f"all residents together take up to {wanted / 2**30:.1f} GiB of main memory, but "
            f"there are {there / 2**30:.1f} GiB; the largest is {largest} with "
            f"{memory[largest].awake / 2**30:.1f} GiB a device: use a smaller model, a higher "
            "ZeRO stage, a smaller KV cache or fewer workers"
        )


def _main_memory(
    placement: Placement, residents: Mapping[str, Resident], memory: Mapping[str, Memory]
) -> int:
    """Bytes, at most, on all hosts together."""
    crowd = crowded(placement, memory)
    if placement.devices.kind == "gpu":
        # A sampler's KV cache is dropped, and with a trainer's weights at hand its own too.
        asleep = [n for n in crowd if residents[n].kind != "sampler"]
        return sum(memory[name].awake * devices_of(residents[name]) for name in asleep)
    # Those of a crowded set sleep in a file; at most its budget is held.
    total = sum(
        memory[name].awake * devices_of(residents[name])
        for name in placement.homes
        if name not in crowd
    )
    homes = {placement.homes[name] for name in crowd}
    budget = placement.devices.memory or 0
    return total + sum(budget * placement.sets[home].devices for home in homes)
