"""Scoring what the policy said."""

from rlgraph import Split, node
from rlgraph.engines.protocols import Rewarder
from rlgraph.metrics import log
from rlgraph.records import Rewards, Rollout


@node(split=Split.ROWS)
def score(reward: Rewarder, rollout: Rollout) -> Rewards:
    """One reward a row, ``[batch]``; rows whose scorer failed are invalid and counted."""
    rewards = reward.score(rollout)
    log("reward/mean", rewards.scores, rewards.valid)
    log("reward/max", rewards.scores, rewards.valid, kind="max")
    log("reward/min", rewards.scores, rewards.valid, kind="min")
    log("reward/invalid", ~rewards.valid, kind="sum")
    return rewards
