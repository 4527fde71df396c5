"""What scores responses: the settings, and the handle that a graph wires."""

from collections.abc import Mapping
from dataclasses import dataclass

from rlgraph.engines.protocols import Rewarder
from rlgraph.errors import RewardError
from rlgraph.models import Handle, Resident


@dataclass(frozen=True)
class RewardConfig:
    """What scores the responses."""

    function: str = "reasoning_gym"
    """A function as file.py:name or package.module:name, or reasoning_gym, or math_verify."""
    model: str | None = None
    """A reward model in its place: a Hugging Face sequence classifier with one output."""
    timeout: float = 60.0
    """Seconds that one call of the function may take."""
    max_tokens_per_batch: int = 16384
    """Padded tokens in one forward pass of the reward model."""

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise RewardError(f"reward.timeout is {self.timeout}; it must be above 0")
        if self.max_tokens_per_batch < 1:
            raise RewardError("reward.max_tokens_per_batch must be at least 1")

    def __call__(self, name: str = "reward") -> "Reward":
        """The handle that a graph wires."""
        return Reward(name, self)


@dataclass(frozen=True)
class Reward(Handle):
    """A function or model that scores finished rollouts."""

    settings: RewardConfig

    @property
    def roles(self) -> Mapping[type, Resident]:
        """Rewarder only."""
        on_device = self.settings.model is not None
        return {Rewarder: Resident(self.name, "reward", self.settings, on_device=on_device)}
