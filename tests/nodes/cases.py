"""What the laws of all nodes are tested on: a rollout with numbers of all kinds."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from rlgraph.records import Rewards, Rollout
from rlgraph.testing import action_values, scored_rollouts, widen


@dataclass(frozen=True)
class Case:
    rollout: Rollout
    rewards: Rewards
    first: Tensor
    second: Tensor
    third: Tensor

    @property
    def mask(self) -> Tensor:
        return self.rollout.action_mask

    @property
    def group(self) -> Tensor:
        return self.rollout.group

    @property
    def new_logprobs(self) -> Tensor:
        """Those of a policy that has moved away from the sampler, far on some tokens."""
        return self.rollout.logprobs - self.first.abs()

    @property
    def reference(self) -> Tensor:
        return self.rollout.logprobs - self.second.abs()

    def take(self, index: Tensor) -> "Case":
        return Case(
            self.rollout[index],
            self.rewards[index],
            self.first[index],
            self.second[index],
            self.third[index],
        )

    def widen(self, extra: int) -> "Case":
        wide = {name: widen(getattr(self, name), extra) for name in ("first", "second", "third")}
        return replace(self, rollout=widen(self.rollout, extra), **wide)


@st.composite
def cases(draw: Any) -> Case:
    rollout, rewards = draw(scored_rollouts())
    numbers = [draw(action_values(rollout)) for _ in range(3)]
    return Case(rollout, rewards, *numbers)


def floats(low: float, high: float, width: int = 64) -> st.SearchStrategy[float]:
    """Without denormal numbers: an engine in this process may have switched them off."""
    return st.floats(low, high, allow_subnormal=False, width=width)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
