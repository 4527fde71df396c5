"""Evaluation: the mean reward of greedy responses to held-out prompts."""

from rlgraph import Graph
from rlgraph.config import OnPolicyConfig
from rlgraph.nodes import generate, score


def build(config: OnPolicyConfig) -> Graph:
    """Answer every held-out prompt once, greedily, and score the answers."""
    with Graph("evaluate") as graph:
        rollout = generate(config.policy(), config.held_out_prompts(), temperature=0.0)
        score(config.reward(), rollout)
    return graph
