"""Rollouts for reward tests: only texts and columns matter to a scorer."""

from typing import Any

import torch

from rlgraph.records import Rollout


def rollout_of(responses: list[str], columns: list[dict[str, Any]] | None = None) -> Rollout:
    """One row a response; an empty one has no action token."""
    rows = len(responses)
    acted = torch.tensor([[False, bool(text)] for text in responses]).reshape(rows, 2)
    real = acted.clone()
    real[:, 0] = True
    return Rollout(
        tokens=real.long(),
        attention_mask=real,
        action_mask=acted,
        logprobs=torch.zeros(rows, 2),
        group=torch.arange(rows),
        truncated=torch.zeros(rows, dtype=torch.bool),
        policy_version=torch.zeros(rows, dtype=torch.long),
        response=responses,
        columns=columns or [{"prompt": f"prompt {row}"} for row in range(rows)],
        batch_size=[rows],
    )
