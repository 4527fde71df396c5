"""Placements that are written down: what they mean, and what is refused."""

from pathlib import Path

import pytest

from rlgraph import PlacementError
from rlgraph.models import Critic
from rlgraph.rewards import RewardConfig
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.placement_file import read_placement
from rlgraph.settings import PolicyConfig

CPUS = Devices("cpu", 6, None)


def ppo_residents():
    policy = PolicyConfig(path="never loaded")
    handles = [policy(), policy().frozen(), Critic("critic", policy), RewardConfig(model="judge")()]
    found = (resident for handle in handles for resident in handle.roles.values())
    return {resident.name: resident for resident in found}


GOOD = """
training:
  devices: 2
  residents:
    policy.trainer: {ranks: 2, zero_stage: 3}
    reference: {ranks: 2}
judging:
  residents: [critic.trainer, reward]
sampling:
  devices: 3
  spread: true
  residents:
    policy.sampler: {engines: 3, kv_cache_mib: 64}
"""


def read(tmp_path: Path, text: str, devices: Devices = CPUS):
    path = tmp_path / "placement.yaml"
    path.write_text(text)
    return read_placement(path, ppo_residents(), devices)


def test_a_file_places_everyone_and_changes_their_settings(tmp_path):
    placement, residents = read(tmp_path, GOOD)
    assert placement.tenants("training") == ["policy.trainer", "reference"]
    assert placement.tenants("judging") == ["critic.trainer", "reward"]
    sizes = {name: device_set.devices for name, device_set in placement.sets.items()}
    assert sizes == {"training": 2, "judging": 1, "sampling": 3}
    assert [s.name for s in placement.sets.values() if s.spread] == ["sampling"]
    trainer = residents["policy.trainer"].settings.trainer
    assert (trainer.ranks, trainer.zero_stage) == (2, 3)
    assert residents["policy.sampler"].settings.sampler.kv_cache_mib == 64
    assert residents["critic.trainer"] == ppo_residents()["critic.trainer"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[critic.trainer, reward]", "[critic.trainer]", "places no reward; add them to a set"),
        ("critic.trainer,", "critic.trainer, reference,", "reference is in set 'training' already"),
        ("critic.trainer,", "judge,", "judging: no resident 'judge'; there are critic.trainer, po"),
        ("spread: true", "spread: often", "sampling: spread is 'often'; true or false"),
        ("spread: true", "color: red", "sampling: unknown color; a set has devices, spread"),
        ("engines: 3", "engines: 4", "policy.sampler needs 4 devices, the set has 3; give it more"),
        ("engines: 3", "engines: many", "engines is 'many'; a number is wanted"),
        ("engines: 3", "ranks: 3", "no setting 'ranks'; it can be given engines, tensor_parallel"),
        ("devices: 3", "devices: 4", "wants 7 devices (training 2, judging 1, sampling 4), but"),
        ("devices: 3", "devices: -1", "devices is -1; a positive number"),
        ("  residents: [critic.trainer, reward]", "  devices: 1", "judging: residents: a mapping"),
        (GOOD, "", "a mapping of device sets is wanted, got None"),
        (GOOD, "a: [", "is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, old, new, says):
    assert old in GOOD
    with pytest.raises(PlacementError) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert says in str(caught.value)
    assert "placement.yaml" in str(caught.value)


def test_a_missing_file_says_what_else_there_is(tmp_path):
    with pytest.raises(PlacementError, match="give colocate, split, group, or a YAML file"):
        read_placement(tmp_path / "colocated", ppo_residents(), CPUS)
