"""The node library: what algorithms are made of.

Nodes run on tensors when called with tensors and are recorded when called
inside a graph. Losses are plain functions that ``update`` is given.
"""

from rlgraph.nodes.baselines import group_advantage, leave_one_out_advantage
from rlgraph.nodes.correction import importance_weights
from rlgraph.nodes.kl import estimate_kl, token_kl
from rlgraph.nodes.policy_loss import clipped_policy_loss, policy_gradient_loss
from rlgraph.nodes.rewarding import score
from rlgraph.nodes.sampling import generate
from rlgraph.nodes.scoring import logprobs, values
from rlgraph.nodes.updating import update

__all__ = [
    "clipped_policy_loss",
    "estimate_kl",
    "generate",
    "group_advantage",
    "importance_weights",
    "leave_one_out_advantage",
    "logprobs",
    "policy_gradient_loss",
    "score",
    "token_kl",
    "update",
    "values",
]
