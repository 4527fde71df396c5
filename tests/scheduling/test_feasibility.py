"""What hosts can hold is known before anything is started."""

import pytest

from rlgraph import PlacementError
from rlgraph.scheduling.devices import Devices, Host, parse_size
from rlgraph.scheduling.feasibility import check_hosts, crowded
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.modes import place
from rlgraph.settings import PolicyConfig, SamplerConfig, TrainerConfig

GIB = 1 << 30


def residents_of(ranks: int = 1, engines: int = 1, tensor_parallel: int = 1):
    policy = PolicyConfig(
        path="never loaded",
        trainer=TrainerConfig(ranks=ranks),
        sampler=SamplerConfig(engines=engines, tensor_parallel=tensor_parallel),
    )()
    handles = [*policy.roles.values(), *policy.frozen().roles.values()]
    return {resident.name: resident for resident in handles}


def hosts(*devices: int, memory: int = 64 * GIB) -> tuple[Host, ...]:
    return tuple(Host(f"host{i}", count, memory) for i, count in enumerate(devices))


def test_crowded_are_those_that_cannot_all_be_awake():
    residents = residents_of()
    memory = {name: Memory(4) for name in residents}
    together = place(residents, "colocate", Devices("cpu", 3, 11))
    assert crowded(together, memory) == set(residents)
    assert crowded(place(residents, "colocate", Devices("cpu", 3, 12)), memory) == set()
    assert crowded(place(residents, "colocate", Devices("cpu", 3, None)), memory) == set()
    assert crowded(place(residents, "split", Devices("cpu", 3, 4)), memory) == set()
    # Trainer and reference share a set, the sampler has its own.
    grouped = crowded(place(residents, "group", Devices("cpu", 3, 7)), memory)
    assert grouped == {"policy.trainer", "reference"}


def test_an_engine_does_not_spread_its_weights_over_hosts():
    residents = residents_of(engines=2, tensor_parallel=4)
    memory = {name: Memory(GIB) for name in residents}
    for shape, fits in [((4, 4), True), ((8,), True), ((6, 6), True), ((3, 3, 3), False)]:
        devices = Devices("gpu", sum(shape), 80 * GIB, hosts(*shape))
        placement = place(residents, "colocate", devices)
        if fits:
            check_hosts(placement, residents, memory)
        else:
            with pytest.raises(PlacementError, match=r"needs 4 devices of one host.*room for 0"):
                check_hosts(placement, residents, memory)


def test_main_memory_counts_what_is_awake_in_cpu_slots():
    residents = residents_of(ranks=2)
    memory = {name: Memory(10 * GIB) for name in residents}
    for have, fits in [(50, True), (49, False)]:
        devices = Devices("cpu", 5, None, hosts(5, memory=have * GIB))
        placement = place(residents, "colocate", devices)
        if fits:
            check_hosts(placement, residents, memory)
        else:
            with pytest.raises(PlacementError, match=r"up to 50.0 GiB.*there are 49.0 GiB"):
                check_hosts(placement, residents, memory)


def test_main_memory_counts_what_sleeps_beside_gpus():
    residents = residents_of(ranks=4)
    memory = {name: Memory(60 * GIB) for name in residents}
    devices = Devices("gpu", 4, 80 * GIB, hosts(4, memory=400 * GIB))
    # Trainer and reference may both sleep, on four devices each; the sampler drops its weights.
    with pytest.raises(PlacementError, match=r"up to 480.0 GiB.*largest is policy"):
        check_hosts(place(residents, "colocate", devices), residents, memory)
    roomy = Devices("gpu", 12, 80 * GIB, hosts(12, memory=400 * GIB))
    check_hosts(place(residents, "split", roomy), residents, memory)


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2 * GIB), ("512 MiB", 512 << 20), ("800m", 800 << 20), ("1.5 gb", 3 << 29), ("7", 7)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "0", "2 GiB each", "1e9"])
def test_what_is_no_size(text):
    with pytest.raises(PlacementError, match="is no size; write 2GiB or 512MiB"):
        parse_size(text)
