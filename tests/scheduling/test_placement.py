"""Where residents live, and what is refused before anything starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgraph import PlacementError
from rlgraph.models import Critic, Reference, Resident, Stateful
from rlgraph.rewards import RewardConfig
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.modes import place
from rlgraph.scheduling.placement import devices_of, workers_of
from rlgraph.settings import PolicyConfig, SamplerConfig, TrainerConfig
from tests.toys import Counter


def residents_of(
    ranks: int = 1, engines: int = 1, tensor_parallel: int = 1, name: str = "policy"
) -> dict[str, Resident]:
    policy = PolicyConfig(
        path="never loaded",
        trainer=TrainerConfig(ranks=ranks),
        sampler=SamplerConfig(engines=engines, tensor_parallel=tensor_parallel),
    )(name)
    handles = [*policy.roles.values(), *policy.frozen().roles.values()]
    handles += Stateful("counter", Counter, Counter).roles.values()
    return {resident.name: resident for resident in handles}


SIZES = st.builds(residents_of, st.integers(1, 4), st.integers(1, 4), st.integers(1, 2))


@given(SIZES, st.sampled_from(["colocate", "split"]), st.integers(1, 20))
def test_a_placement_has_room_for_everyone_or_is_refused(residents, mode, count) -> None:
    needs = [devices_of(resident) for resident in residents.values()]
    possible = max(needs) <= count if mode == "colocate" else sum(needs) <= count
    if not possible:
        with pytest.raises(PlacementError):
            place(residents, mode, Devices("cpu", count, None))
        return
    placement = place(residents, mode, Devices("cpu", count, None))
    assert sum(device_set.devices for device_set in placement.sets.values()) <= count
    for name, resident in residents.items():
        home = placement.home(name)
        assert (home.devices if home else 0) >= devices_of(resident)
        assert (home is None) == (devices_of(resident) == 0)
        if home is not None:
            assert name in placement.tenants(home.name)
    alone = all(len(placement.tenants(name)) == 1 for name in placement.sets)
    assert alone == (mode == "split")


def test_sizes_by_hand() -> None:
    residents = residents_of(ranks=2, engines=3, tensor_parallel=2)
    devices = {name: devices_of(resident) for name, resident in residents.items()}
    assert devices == {"policy.trainer": 2, "policy.sampler": 6, "reference": 2, "counter": 0}
    assert workers_of(residents["policy.sampler"]) == 3
    colocated = place(residents, "colocate", Devices("gpu", 6, 80 << 30))
    assert [device_set.devices for device_set in colocated.sets.values()] == [6]
    assert place(residents, "split", Devices("gpu", 10, 80 << 30)).home("reference").devices == 2


@pytest.mark.parametrize(
    ("sizes", "flag"),
    [
        ({"ranks": 3}, "--actor.trainer.ranks"),
        ({"engines": 3}, "--actor.sampler.engines"),
        ({"tensor_parallel": 4}, "--actor.sampler.tensor-parallel"),
    ],
)
@pytest.mark.parametrize("mode", ["colocate", "split"])
def test_what_one_resident_lacks_names_the_flag(sizes, flag: str, mode) -> None:
    with pytest.raises(PlacementError) as caught:
        place(residents_of(name="actor", **sizes), mode, Devices("cpu", 2, None))
    assert f"lower {flag}" in str(caught.value) or flag in str(caught.value)
    assert "there are 2 CPUs" in str(caught.value)


def test_a_split_that_does_not_fit_lists_what_is_wanted() -> None:
    with pytest.raises(PlacementError) as caught:
        place(residents_of(ranks=2), "split", Devices("gpu", 4, 80 << 30))
    message = str(caught.value)
    assert "--placement split needs 5 devices" in message
    assert "policy.sampler 1, policy.trainer 2, reference 2" in message
    assert "use --placement group or colocate" in message


def test_nothing_to_place_needs_no_devices() -> None:
    counter = Stateful("counter", Counter, Counter).roles[Counter]
    for mode in ("colocate", "split"):
        placement = place({"counter": counter}, mode, Devices("cpu", 1, None))
        assert placement.homes == {}
        assert sum(device_set.devices for device_set in placement.sets.values()) == 0


def test_here_there_is_at_least_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert Devices.here().count >= 1
    # CPU slots are a matter of bookkeeping: more than cores is allowed.
    assert Devices.here(64).count == 64


def test_more_gpus_than_there_are_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(PlacementError, match="--devices 4: this machine has 2 GPUs"):
        Devices.here(4)


def test_the_reference_is_sized_like_the_trainer() -> None:
    reference = Reference("reference", PolicyConfig(trainer=TrainerConfig(ranks=3)))
    assert [workers_of(resident) for resident in reference.roles.values()] == [3]


def test_groups_are_the_usual_ones() -> None:
    policy = PolicyConfig(path="never loaded", trainer=TrainerConfig(ranks=2))
    handles = [policy(), policy().frozen(), Critic("critic", policy), RewardConfig(model="judge")()]
    residents = {r.name: r for handle in handles for r in handle.roles.values()}
    placement = place(residents, "group", Devices("cpu", 5, None))
    assert placement.homes == {
        "policy.trainer": "training",
        "reference": "training",
        "critic.trainer": "judging",
        "reward": "judging",
        "policy.sampler": "sampling",
    }
    assert {name: s.devices for name, s in placement.sets.items()} == {
        "training": 2,
        "judging": 2,
        "sampling": 1,
    }


def test_a_reward_function_needs_no_device() -> None:
    (resident,) = RewardConfig()().roles.values()
    assert devices_of(resident) == 0
