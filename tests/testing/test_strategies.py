import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from rlgraph.records import Rewards, Rollout
from rlgraph.testing import action_values, check_rollout, rollouts, scored_rollouts, widen


@given(rollouts(), st.integers(0, 3))
def test_every_rollout_is_valid_also_with_more_padding(rollout: Rollout, extra: int) -> None:
    check_rollout(rollout)
    wide = widen(rollout, extra)
    check_rollout(wide)
    assert wide.tokens.shape[1] == rollout.tokens.shape[1] + extra


@given(scored_rollouts(), st.data())
def test_numbers_fit_their_rollout(case: tuple[Rollout, Rewards], data: st.DataObject) -> None:
    rollout, rewards = case
    assert len(rewards) == len(rollout)
    assert not rewards.scores[~rewards.valid].any()
    numbers = data.draw(action_values(rollout))
    assert numbers.shape == rollout.tokens.shape
    assert not numbers[~rollout.action_mask].any()


# The first example will do; nobody reads it, so it need not be small.
UNSHRUNK = settings(derandomize=True, database=None, phases=[Phase.generate])


def is_interleaved(rollout: Rollout) -> bool:
    changes = (rollout.group[1:] != rollout.group[:-1]).sum()
    return bool(changes >= len(rollout.group.unique()))


SHAPES = {
    "a row without actions": lambda r: not r.action_mask.any(-1).all(),
    "no actions at all": lambda r: not r.action_mask.any(),
    "a group of one": lambda r: bool((r.group.unique(return_counts=True)[1] == 1).any()),
    "interleaved groups": is_interleaved,
    "an observation between actions": lambda r: bool(
        ((r.action_mask.cumsum(-1) > 0) & ~r.action_mask & r.attention_mask)[:, :-1].any()
    ),
    "padding beyond the longest row": lambda r: not r.attention_mask[:, -1].any(),
    "ragged rows": lambda r: len(r.attention_mask.sum(-1).unique()) > 1,
    "a truncated row": lambda r: bool(r.truncated.any()),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_occurs(shape) -> None:
    find(rollouts(), shape, settings=UNSHRUNK)


def test_some_rewards_are_invalid_unless_told_otherwise() -> None:
    find(scored_rollouts(), lambda case: not case[1].valid.all(), settings=UNSHRUNK)


@given(scored_rollouts(invalid=False))
def test_all_rewards_can_be_asked_to_be_valid(case: tuple[Rollout, Rewards]) -> None:
    assert case[1].valid.all()
