import pytest
import torch
from torch import tensor

from rlgraph import RlgraphError
from rlgraph.errors import AnotherRound
from rlgraph.metrics import collect
from rlgraph.nodes import (
    GroupBuffer,
    ScoredRollout,
    StepCounter,
    after_steps,
    collect_groups,
    rewards_of,
)
from rlgraph.records import Rewards
from rlgraph.testing import FakePolicy, check_rollout, fake_prompts


def offer(
    buffer: GroupBuffer, first: int, kept: list[bool], groups: int, rounds: int = 5
) -> ScoredRollout:
    """One round: a group of two rows for each entry of ``kept``, scored by its id."""
    prompts = fake_prompts(len(kept), first_group=first)
    rollout = FakePolicy(seed=first).generate(prompts, samples=2)
    keep = tensor(kept).repeat_interleave(2)
    rewards = Rewards.of(rollout.group.float())
    return collect_groups(buffer, rollout, rewards, keep, groups=groups, max_rounds=rounds)


def test_rounds_go_on_until_the_batch_is_full() -> None:
    buffer = GroupBuffer()
    with pytest.raises(AnotherRound):
        offer(buffer, 0, [True, False, False], groups=3)
    with collect() as metrics:
        batch = offer(buffer, 10, [True, True, True], groups=3)
    check_rollout(batch)
    assert batch.group.tolist() == [0, 0, 10, 10, 11, 11]
    assert rewards_of(batch).scores.tolist() == batch.group.tolist()
    assert metrics["filter/rounds"].value == 2
    assert metrics["filter/surplus_groups"].value == 1


def test_surplus_groups_start_the_next_batch() -> None:
    buffer = GroupBuffer()
    offer(buffer, 0, [True, True, True], groups=2)
    assert buffer.groups() == [2]
    batch = offer(buffer, 10, [True, False], groups=2)
    assert batch.group.tolist() == [2, 2, 10, 10]


def test_at_the_bound_the_batch_is_what_there_is() -> None:
    buffer = GroupBuffer()
    with pytest.raises(AnotherRound):
        offer(buffer, 0, [False, True], groups=3, rounds=2)
    assert offer(buffer, 10, [False, False], groups=3, rounds=2).group.tolist() == [1, 1]
    assert buffer.groups() == []
    # The bound holds for each batch anew.
    with pytest.raises(AnotherRound):
        offer(buffer, 20, [True], groups=3, rounds=2)


def test_nothing_at_the_bound_is_an_error_with_the_pass_rate() -> None:
    buffer = GroupBuffer()
    with pytest.raises(AnotherRound):
        offer(buffer, 0, [False, False], groups=1, rounds=2)
    with pytest.raises(RlgraphError, match=r"none of 3 groups passed .* in 2 rounds"):
        offer(buffer, 10, [False], groups=1, rounds=2)


def test_waiting_groups_survive_a_checkpoint() -> None:
    buffer, restored = GroupBuffer(), GroupBuffer()
    with pytest.raises(AnotherRound):
        offer(buffer, 0, [True, False], groups=2)
    restored.load_state_dict(buffer.state_dict())
    batch, again = (offer(each, 10, [True], groups=2) for each in (buffer, restored))
    for name in ("tokens", "logprobs", "group", "scores", "action_mask"):
        assert torch.equal(getattr(batch, name), getattr(again, name))
    assert list(batch.response) == list(again.response)


def test_a_step_counter_survives_a_checkpoint() -> None:
    counter, restored = StepCounter(), StepCounter()
    assert [bool(after_steps(counter, steps=1)) for _ in range(2)] == [False, True]
    restored.load_state_dict(counter.state_dict())
    assert bool(after_steps(restored, steps=2))
    assert not bool(after_steps(StepCounter(), steps=1))
