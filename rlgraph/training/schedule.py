"""The learning rate over a run."""

import math

from rlgraph.errors import EngineError
from rlgraph.settings import TrainerConfig


def learning_rate(config: TrainerConfig, step: int, total: int) -> float:
    """The rate of optimizer step ``step`` (from 0) of ``total``.

    It rises linearly over ``warmup_steps``, the first step included, so that no
    step is wasted on a rate of 0. Then it stays, or falls to ``min_learning_rate``
    linearly or along half a cosine, which the last step reaches.

    Raises:
        EngineError: the peak is not set.
    """
    if config.learning_rate is None:
        raise EngineError("trainer.learning_rate is not set, and nothing recommends one")
    peak, low, warmup = config.learning_rate, config.min_learning_rate, config.warmup_steps
    if step < warmup:
        return peak * (step + 1) / warmup
    if config.schedule == "constant":
        return peak
    progress = min(1.0, (step - warmup) / max(1, total - 1 - warmup))
    if config.schedule == "cosine":
        progress = (1 - math.cos(math.pi * progress)) / 2
    return peak + (min(low, peak) - peak) * progress
