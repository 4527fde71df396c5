"""Nodes that go by the step that a run has reached."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from rlgraph import node


class StepCounter:
    """How many steps have begun."""

    def __init__(self) -> None:
        self.steps = 0

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint keeps."""
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.steps = state["steps"]


@node
def after_steps(counter: StepCounter, *, steps: int) -> Bool[Tensor, ""]:
    """False in the first ``steps`` steps, True from then on.

    For ``update(policy, ..., when=after_steps(counter, steps=20))``: a critic
    learns alone at first.

    >>> counter = StepCounter()
    >>> [bool(after_steps(counter, steps=2)) for _ in range(4)]
    [False, False, True, True]
    """
    counter.steps += 1
    return torch.tensor(counter.steps > steps)
