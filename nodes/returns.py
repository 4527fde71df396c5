"""From token rewards to returns and advantages."""

from jaxtyping import Bool, Float
from tensordict import TensorClass
from torch import Tensor

from rlgraph import Split, node
from rlgraph.metrics import log
from rlgraph.nodes.groups import spread_over_actions
from rlgraph.nodes.scan import ActionTokens, discounted_sum_
from rlgraph.records import Rewards


class Advantages(TensorClass):
    """What a critic is used for, and what it is trained on; 0 outside the action mask."""

    advantages: Float[Tensor, "batch seq"]
    returns: Float[Tensor, "batch seq"]


@node(split=Split.ROWS)
def gae(
    token_rewards: Float[Tensor, "batch seq"],
    values: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
) -> Advantages:
    """Generalised advantage estimation over the action tokens.

    With t counting action tokens only::

        delta_t = r_t + gamma V_{t+1} - V_t
        A_t     = delta_t + gamma lam A_{t+1}
        G_t     = A_t + V_t

    Observation tokens in between carry V and A across unchanged and cost no
    discount. Behind the last action token V and A are 0, whether the row ended
    by itself or was cut off. Outside ``action_mask`` inputs are not read, and
    results are 0.

    Args:
        token_rewards: r, such as :func:`kl_in_reward` gives.
        values: V, before each action is chosen.
        action_mask: which tokens the policy chose.
        gamma: discount of rewards.
        lam: 0 trusts the critic (TD error), 1 trusts the rewards (Monte Carlo).

    Source: Schulman et al., 2016 (arXiv:1506.02438, eq. 16).

    >>> from torch import tensor
    >>> mask = tensor([[False, True, False, True]])
    >>> r, v = tensor([[0.0, 0.0, 0.0, 1.0]]), tensor([[0.0, 0.25, 0.0, 0.5]])
    >>> gae(r, v, mask, lam=0.5).advantages
    tensor([[0.0000, 0.5000, 0.0000, 0.5000]])
    """
    actions = ActionTokens(action_mask)
    delta, value = actions.gather(token_rewards), actions.gather(values)
    delta.sub_(value)
    delta[:-1].add_(value[1:], alpha=gamma)
    advantage = discounted_sum_(delta, gamma * lam)
    advantages = actions.scatter(advantage)
    returns = actions.scatter(value.add_(advantage))
    log("advantage/mean", advantages, action_mask)
    log("return/mean", returns, action_mask)
    log("value/mean", values, action_mask)
    return Advantages(advantages=advantages, returns=returns, batch_size=[len(values)])


@node(split=Split.ROWS)
def discounted_returns(
    token_rewards: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    gamma: float = 1.0,
) -> Float[Tensor, "batch seq"]:
    """Return-to-go ``G_t = r_t + gamma G_{t+1}`` over the action tokens; 0 elsewhere.

    t counts action tokens only, as for :func:`gae`.

    >>> from torch import tensor
    >>> mask = tensor([[False, True, False, True]])
    >>> discounted_returns(tensor([[0.0, 1.0, 0.0, 4.0]]), mask, gamma=0.5)
    tensor([[0., 3., 0., 4.]])
    """
    actions = ActionTokens(action_mask)
    returns = actions.scatter(discounted_sum_(actions.gather(token_rewards), gamma))
    log("return/mean", returns, action_mask)
    return returns


@node(split=Split.ROWS)
def reward_at_end(
    rewards: Rewards, action_mask: Bool[Tensor, "batch seq"]
) -> Float[Tensor, "batch seq"]:
    """Each row's score on its last action token; 0 elsewhere, and for invalid rows.

    A row without any action token has no place for its score; such rows are
    counted as ``reward/rows_without_actions``.

    >>> from torch import tensor
    >>> reward_at_end(Rewards.of([7.0]), tensor([[False, True, True, False]]))
    tensor([[0., 0., 7., 0.]])
    """
    log("reward/rows_without_actions", ~action_mask.any(-1), kind="sum")
    position = action_mask.cumsum(-1)
    last = action_mask & (position == position[:, -1:])
    return spread_over_actions(rewards.scores.where(rewards.valid, 0.0), last)


@node(split=Split.ROWS)
def kl_in_reward(
    rewards: Rewards,
    kl: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    kl_coef: float | Float[Tensor, ""],
) -> Float[Tensor, "batch seq"]:
    """Token rewards ``-kl_coef KL_t``, plus the row's score on its last action token.

    0 outside ``action_mask``, and everywhere in a row without a valid score.

    Args:
        rewards: one score a row.
        kl: from :func:`~rlgraph.nodes.kl.token_kl`.
        action_mask: which tokens the policy chose.
        kl_coef: a number, or what :func:`~rlgraph.nodes.adaptive_kl.adaptive_kl_coef` gives.

    Source: Ziegler et al., 2019 (arXiv:1909.08593); per token as in Ouyang et
    al., 2022 (arXiv:2203.02155).
    """
    counted = action_mask & rewards.valid[:, None]
    penalty = (kl_coef * kl).where(counted, 0.0)
    log("reward/kl_penalty", penalty.sum(-1), rewards.valid)
    return reward_at_end(rewards, action_mask) - penalty


@node(split=Split.ROWS)
def kl_in_score(
    rewards: Rewards,
    kl: Float[Tensor, "batch seq"],
    action_mask: Bool[Tensor, "batch seq"],
    *,
    kl_coef: float | Float[Tensor, ""],
) -> Rewards:
    """Scores minus ``kl_coef`` times the row's summed KL, for algorithms with one reward a row.

    Arguments as for :func:`kl_in_reward`. Invalid rows stay invalid.

    Source: Ahmadian et al., 2024 (RLOO, arXiv:2402.14740).
    """
    penalty = (kl_coef * kl).where(action_mask, 0.0).sum(-1).where(rewards.valid, 0.0)
    log("reward/kl_penalty", penalty, rewards.valid)
    return rewards.replace(scores=rewards.scores - penalty)
