"""A small graph with every kind of edge: records, fields, arrays, a loss and a way back."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlgraph import Graph, node
from rlgraph.engines.protocols import PromptStream, Rewarder, Sampler, Scorer, Trainer
from rlgraph.models import Handle, Policy, Resident
from rlgraph.records import Prompts, Rewards, Rollout, Sequences
from rlgraph.settings import PolicyConfig

PerToken = Float[Tensor, "batch seq"]


@dataclass(frozen=True)
class Stream(Handle):
    @property
    def roles(self):
        return {PromptStream: Resident(self.name, "prompts", None)}


@dataclass(frozen=True)
class Reward(Handle):
    @property
    def roles(self):
        return {Rewarder: Resident(self.name, "reward", None)}


@node
def take(prompts: PromptStream) -> Prompts: ...


@node
def sample(policy: Sampler, prompts: Prompts) -> Rollout: ...


@node
def score(reward: Rewarder, rollout: Rollout) -> Rewards: ...


@node
def reference_logprobs(model: Scorer, rows: Sequences) -> PerToken: ...


@node
def baseline(
    rewards: Float[Tensor, " batch"], group: Int[Tensor, " batch"], mask: Bool[Tensor, "batch seq"]
) -> PerToken: ...


@node(forwards="loss")
def learn(policy: Trainer, loss: Callable, rollout: Rollout, **inputs: object) -> None: ...


def my_loss(
    logprobs: PerToken, rollout: Rollout, advantages: PerToken, reference: PerToken
) -> PerToken: ...


@pytest.fixture
def graph() -> Graph:
    policy = Policy("policy", PolicyConfig())
    with Graph("example") as graph:
        rollout = sample(policy, take(Stream("prompts")))
        rewards = score(Reward("judge"), rollout)
        reference = reference_logprobs(policy.frozen(), rollout)
        advantages = baseline(rewards.scores, rollout.group, rollout.action_mask)
        learn(policy, my_loss, rollout, advantages=advantages, reference=reference)
    return graph
