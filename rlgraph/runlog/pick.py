"""Choosing the rows of a rollout that a person gets to read."""

from rlgraph.records import Rewards, Rollout
from rlgraph.runlog.entries import Sample


def pick_samples(rollout: Rollout, rewards: Rewards, count: int) -> tuple[Sample, ...]:
    """Up to ``count`` rows, evenly spaced, so that they answer different prompts.

    Raises:
        ValueError: rollout and rewards differ in length.
    """
    rows = len(rollout)
    if len(rewards) != rows:
        raise ValueError(f"{rows} rollout rows, but {len(rewards)} rewards; they belong together")
    count = min(count, rows)
    responses, columns = list(rollout.response), list(rollout.columns)
    lengths = rollout.action_mask.sum(-1)
    return tuple(
        Sample(
            prompt=columns[row].get("prompt"),
            response=responses[row],
            reward=float(rewards.scores[row]) if rewards.valid[row] else None,
            length=int(lengths[row]),
            truncated=bool(rollout.truncated[row]),
            answer=columns[row].get("answer"),
        )
        for row in (index * rows // count for index in range(count))
    )
