"""Rollouts of fixed content."""

from collections.abc import Callable

import pytest
import torch

from rlgraph.records import Rewards, Rollout


def make_rollout(responses: list[str], columns: list[dict] | None = None) -> Rollout:
    rows = len(responses)
    lengths = torch.tensor([len(response) for response in responses])
    action_mask = torch.arange(8)[None] < lengths[:, None]
    return Rollout(
        tokens=torch.ones(rows, 8, dtype=torch.long) * action_mask,
        attention_mask=action_mask,
        action_mask=action_mask,
        logprobs=torch.zeros(rows, 8),
        group=torch.arange(rows),
        truncated=torch.zeros(rows, dtype=torch.bool),
        policy_version=torch.zeros(rows, dtype=torch.long),
        response=responses,
        columns=columns or [{"prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(rows)],
        batch_size=[rows],
    )


@pytest.fixture
def rollout() -> Callable[..., Rollout]:
    return make_rollout


@pytest.fixture
def rewards() -> Callable[[list[float]], Rewards]:
    return Rewards.of
