"""The node library: what algorithms are made of.

Nodes run on tensors when called with tensors and are recorded when called
inside a graph. Losses are plain functions that ``update`` is given.
``docs/algorithms.md`` has a section on each.
"""

from rlgraph.nodes.adaptive_kl import AdaptiveKL, adaptive_kl_coef
from rlgraph.nodes.baselines import group_advantage, leave_one_out_advantage, subtract_greedy
from rlgraph.nodes.cispo import cispo_loss
from rlgraph.nodes.collecting import GroupBuffer, ScoredRollout, collect_groups, rewards_of
from rlgraph.nodes.correction import importance_weights
from rlgraph.nodes.critic_loss import value_loss
from rlgraph.nodes.entropy import with_entropy_bonus
from rlgraph.nodes.filters import (
    both,
    groups_in_range,
    mask_rows,
    mixed_groups,
    select,
    select_rewards,
)
from rlgraph.nodes.kl import Estimator, estimate_kl, token_kl
from rlgraph.nodes.policy_loss import clipped_policy_loss, policy_gradient_loss
from rlgraph.nodes.returns import (
    Advantages,
    discounted_returns,
    gae,
    kl_in_reward,
    kl_in_score,
    reward_at_end,
)
from rlgraph.nodes.rewarding import score
from rlgraph.nodes.running import (
    RunningMean,
    RunningMoments,
    normalize_rewards,
    subtract_running_mean,
)
from rlgraph.nodes.sampling import generate
from rlgraph.nodes.scoring import logprobs, values
from rlgraph.nodes.sequence_loss import gspo_policy_loss
from rlgraph.nodes.shaping import (
    clip_rewards,
    combine_advantages,
    combine_rewards,
    overlong_penalty,
    truncation_penalty,
)
from rlgraph.nodes.stepping import StepCounter, after_steps
from rlgraph.nodes.updating import update
from rlgraph.nodes.whitening import whiten

__all__ = [
    "AdaptiveKL",
    "Advantages",
    "Estimator",
    "GroupBuffer",
    "RunningMean",
    "RunningMoments",
    "ScoredRollout",
    "StepCounter",
    "adaptive_kl_coef",
    "after_steps",
    "both",
    "cispo_loss",
    "clip_rewards",
    "clipped_policy_loss",
    "collect_groups",
    "combine_advantages",
    "combine_rewards",
    "discounted_returns",
    "estimate_kl",
    "gae",
    "generate",
    "group_advantage",
    "groups_in_range",
    "gspo_policy_loss",
    "importance_weights",
    "kl_in_reward",
    "kl_in_score",
    "leave_one_out_advantage",
    "logprobs",
    "mask_rows",
    "mixed_groups",
    "normalize_rewards",
    "overlong_penalty",
    "policy_gradient_loss",
    "reward_at_end",
    "rewards_of",
    "score",
    "select",
    "select_rewards",
    "subtract_greedy",
    "subtract_running_mean",
    "token_kl",
    "truncation_penalty",
    "update",
    "value_loss",
    "values",
    "whiten",
    "with_entropy_bonus",
]
