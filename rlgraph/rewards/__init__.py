"""Rewards: functions and models that score what the policy said."""

from rlgraph.engines.protocols import Rewarder
from rlgraph.rewards.settings import Reward, RewardConfig
from rlgraph.settings import RunContext

__all__ = ["Reward", "RewardConfig", "build_rewarder"]


def build_rewarder(settings: RewardConfig, context: RunContext) -> Rewarder:
    """Load the reward model or function that ``settings`` name.

    Raises:
        RewardError: it is not there, or cannot be used.
    """
    if settings.model is not None:
        from rlgraph.rewards.model import ModelRewarder

        return ModelRewarder(settings.model, settings.max_tokens_per_batch, scratch=context.scratch)
    from rlgraph.rewards.functions import FunctionRewarder
    from rlgraph.rewards.loading import load_function

    return FunctionRewarder(load_function(settings.function), settings.function, settings.timeout)
