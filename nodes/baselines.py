"""Advantages that need no critic: a group's own rewards are the baseline."""

from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlgraph import Split, node
from rlgraph.metrics import log
from rlgraph.nodes.groups import group_statistics, log_groups, spread_over_actions
from rlgraph.records import Rewards, Rollout


@node(split=Split.GROUPS)
def group_advantage(
    rewards: Rewards,
    group: Int[Tensor, " batch"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-6,
) -> Float[Tensor, "batch seq"]:
    """Reward relative to the group: ``A = (R - mean) / (std + eps)`` at every action token.

    Mean and sample standard deviation (ddof 1) are over the group's valid rows.
    A group of one valid row, or whose rewards are all equal, gets exactly 0; so
    does a row without a valid reward. Tokens outside ``action_mask`` are 0.

    Args:
        rewards: one score a row.
        group: which prompt each row answers; position does not matter.
        action_mask: where the advantages go.
        scale: ``none`` leaves out the division (Dr. GRPO).
        eps: keeps small deviations from blowing up.

    Source: GRPO (Shao et al., 2024, arXiv:2402.03300, section 4.1.2); without
    the division, Dr. GRPO (Liu et al., 2025, arXiv:2503.20783).

    >>> from torch import tensor
    >>> mask = tensor([[False, True]]).expand(4, 2)
    >>> group_advantage(Rewards.of([0.0, 5.0, 2.0, 5.0]), tensor([3, 8, 3, 8]), mask)[:, 1]
    tensor([-0.7071,  0.0000,  0.7071,  0.0000])
    """
    statistics = group_statistics(rewards, group)
    log_groups(statistics, rewards)
    centred = rewards.scores.double() - statistics.mean
    advantage = centred / (statistics.std + eps) if scale == "std" else centred
    return spread_over_actions(advantage.where(rewards.valid & statistics.varied, 0.0), action_mask)


@node(split=Split.GROUPS)
def leave_one_out_advantage(
    rewards: Rewards,
    group: Int[Tensor, " batch"],
    action_mask: Bool[Tensor, "batch seq"],
) -> Float[Tensor, "batch seq"]:
    """Reward minus the mean of the group's *other* rows, at every action token.

    ``A_i = R_i - (sum_j R_j - R_i) / (n - 1)``, over the n valid rows of the
    group. With n = 1 there is nothing to compare with and A is 0; so it is for
    a row without a valid reward. Tokens outside ``action_mask`` are 0.

    Source: RLOO (Kool et al., 2019; Ahmadian et al., 2024, arXiv:2402.14740).

    >>> from torch import tensor
    >>> mask = tensor([[False, True]]).expand(3, 2)
    >>> leave_one_out_advantage(Rewards.of([1.0, 3.0, 5.0]), tensor([4, 4, 4]), mask)[:, 1]
    tensor([-3.,  0.,  3.])
    """
    statistics = group_statistics(rewards, group)
    log_groups(statistics, rewards)
    # R - (nM - R)/(n - 1) = (R - M) n/(n - 1), which does not lose digits to a large mean.
    factor = statistics.count / (statistics.count - 1).clamp(min=1)
    advantage = (rewards.scores.double() - statistics.mean) * factor
    return spread_over_actions(advantage.where(rewards.valid & statistics.varied, 0.0), action_mask)


@node
def subtract_greedy(
    rewards: Rewards,
    group: Int[Tensor, " batch"],
    greedy_rewards: Rewards,
    greedy: Rollout,
) -> Rewards:
    """Scores minus the score of the greedy response to the same prompt.

    A row is invalid if its own score or its prompt's greedy score is. Several
    greedy rows of one prompt count by their mean.

    Args:
        rewards: of the sampled rows.
        group: which prompt each sampled row answers.
        greedy_rewards: of the greedy rows.
        greedy: the greedy rows; usually one a prompt.

    Source: ReMax (Li et al., 2023, arXiv:2310.10505).

    """
    same = (group[:, None] == greedy.group) & greedy_rewards.valid
    count = same.sum(-1)
    total = greedy_rewards.scores.double().where(same, 0.0).sum(-1)
    baseline = total / count.clamp(min=1)
    valid = rewards.valid & (count > 0)
    log("reward/greedy", greedy_rewards.scores, greedy_rewards.valid)
    log("reward/without_greedy", rewards.valid & ~valid, kind="sum")
    scores = (rewards.scores - baseline).float().where(valid, 0.0)
    return rewards.replace(scores=scores, valid=valid)
