"""Dynamic sampling: collect groups that passed a filter until a batch is full."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rlgraph import RlgraphError, Split, node
from rlgraph.errors import AnotherRound
from rlgraph.metrics import log
from rlgraph.records import Rewards, Rollout
from rlgraph.rows import join
from rlgraph.types import Record
from rlgraph.wire import PackedRecord, pack


class ScoredRollout(Rollout):
    """A rollout that carries its rewards with it."""

    scores: Float[Tensor, " batch"]
    valid: Bool[Tensor, " batch"]


class GroupBuffer:
    """Groups that wait for a batch to be full; those left over start the next one."""

    def __init__(self) -> None:
        self.waiting: ScoredRollout | None = None
        self.rounds = 0
        self.seen = 0
        """Groups sampled for the batch in the making."""

    def add(self, rows: ScoredRollout) -> None:
        """Put rows behind those that wait."""
        waiting = [rows] if self.waiting is None else [self.waiting, rows]
        self.waiting = join(waiting, Record(ScoredRollout))

    def groups(self) -> list[int]:
        """The ids that wait, in the order of their arrival."""
        return [] if self.waiting is None else list(dict.fromkeys(self.waiting.group.tolist()))

    def take(self, ids: list[int]) -> ScoredRollout:
        """Remove these groups' rows."""
        assert self.waiting is not None
        wanted = set(ids)
        keep = torch.tensor([group in wanted for group in self.waiting.group.tolist()])
        taken, self.waiting = self.waiting[keep], self.waiting[~keep]
        self.rounds = self.seen = 0
        return taken

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: the groups themselves, since they were paid for."""
        waiting = None if self.waiting is None else pack(self.waiting)
        return {"waiting": waiting, "rounds": self.rounds, "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        packed: PackedRecord | None = state["waiting"]
        rows = None if packed is None else packed.unpack()
        assert rows is None or isinstance(rows, ScoredRollout)
        self.waiting = rows
        self.rounds, self.seen = state["rounds"], state["seen"]


@node
def collect_groups(
    buffer: GroupBuffer,
    rollout: Rollout,
    rewards: Rewards,
    keep: Bool[Tensor, " batch"],
    *,
    groups: int,
    max_rounds: int,
) -> ScoredRollout:
    """The next ``groups`` groups that passed a filter; samples again until there are as many.

    Every round runs the graph up to here once more, with new prompts. Groups
    beyond the batch wait for the next step. After ``max_rounds`` rounds the batch
    is what has been found, if it is anything.

    Args:
        buffer: holds the groups from round to round.
        rollout: this round's rows.
        rewards: their rewards.
        keep: which rows passed, from a filter node.
        groups: size of a full batch, in groups.
        max_rounds: rounds a step at most.

    Raises:
        AnotherRound: the batch is not full yet.
        RlgraphError: no group passed in ``max_rounds`` rounds.

    Source: dynamic sampling (Yu et al., 2025, arXiv:2503.14476, section 3.2).
    """
    fields = {name: getattr(rollout, name) for name in type(rollout).__dataclass_fields__}
    scored = ScoredRollout(
        **fields, scores=rewards.scores, valid=rewards.valid, batch_size=[len(rollout)]
    )
    buffer.add(scored[keep])
    buffer.rounds += 1
    buffer.seen += len(rollout.group.unique())
    waiting = buffer.groups()
    if len(waiting) < groups and buffer.rounds < max_rounds:
        raise AnotherRound
    if not waiting:
        raise RlgraphError(
            f"none of {buffer.seen} groups passed the filter in {buffer.rounds} rounds "
            "(pass rate 0.0): the task is too hard or too easy for the policy as it is, or the "
            "reward never varies; change the data, the filter, or raise max_sampling_rounds"
        )
    log("filter/rounds", float(buffer.rounds))
    log("filter/surplus_groups", float(max(0, len(waiting) - groups)))
    return buffer.take(waiting[:groups])


@node(split=Split.ROWS)
def rewards_of(rollout: ScoredRollout) -> Rewards:
    """The rewards that a scored rollout carries."""
    return Rewards(scores=rollout.scores, valid=rollout.valid, batch_size=[len(rollout)])
