"""Scoring what the policy said."""

from rlgraph import Split, node
from rlgraph.engines.protocols import Rewarder
from rlgraph.metrics import log
from rlgraph.records import Rewards, Rollout


@node(split=Split.ROWS)
def score(reward: Rewarder, rollout: Rollout, *, name: str = "reward") -> Rewards:
    """One reward a row, ``[batch]``; rows whose scorer failed are invalid and counted.

    Its metrics are logged under ``name``: a graph that scores twice gives two names.
    """
    rewards = reward.score(rollout)
    log(f"{name}/mean", rewards.scores, rewards.valid)
    log(f"{name}/max", rewards.scores, rewards.valid, kind="max")
    log(f"{name}/min", rewards.scores, rewards.valid, kind="min")
    log(f"{name}/invalid", ~rewards.valid, kind="sum")
    return rewards
