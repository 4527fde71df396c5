"""Help for testing one's own nodes: valid random rollouts, fake models, a checker.

Needs hypothesis (``pip install "rlgraph[dev]"``). A node's property test is short:

>>> from hypothesis import given
>>> from rlgraph.nodes import group_advantage
>>> from rlgraph.testing import scored_rollouts
>>> @given(scored_rollouts())
... def test_masked_positions_stay_zero(case):
...     rollout, rewards = case
...     advantages = group_advantage(rewards, rollout.group, rollout.action_mask)
...     assert not advantages[~rollout.action_mask].any()
>>> test_masked_positions_stay_zero()
"""

from rlgraph.testing.checks import check_rollout
from rlgraph.testing.fakes import FakeCritic, FakePolicy, FakeRewarder, fake_prompts
from rlgraph.testing.strategies import (
    action_values,
    rewards_for,
    rollouts,
    scored_rollouts,
    widen,
)

__all__ = [
    "FakeCritic",
    "FakePolicy",
    "FakeRewarder",
    "action_values",
    "check_rollout",
    "fake_prompts",
    "rewards_for",
    "rollouts",
    "scored_rollouts",
    "widen",
]
