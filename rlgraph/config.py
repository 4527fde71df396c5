"""The settings that graph files build on."""

from dataclasses import dataclass, field

from rlgraph.data import DataConfig, take_prompts
from rlgraph.graph import Value
from rlgraph.rewards import RewardConfig
from rlgraph.settings import PolicyConfig


@dataclass(frozen=True)
class OnPolicyConfig:
    """What every algorithm that samples from its own policy needs."""

    policy: PolicyConfig = field(default_factory=PolicyConfig)
    data: DataConfig = field(default_factory=DataConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    prompts_per_step: int = 64
    """Prompts drawn for each step."""

    def prompts(self) -> Value:
        """The next prompts to train on."""
        return take_prompts(self.data(self.policy.path), count=self.prompts_per_step)

    def held_out_prompts(self) -> Value:
        """All prompts that are kept for evaluation."""
        return take_prompts(self.data.held_out(self.policy.path), count=self.data.eval_size)
