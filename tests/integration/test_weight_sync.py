"""What vLLM samples from is what DeepSpeed trains: they agree on every log-probability."""

import pytest
import torch
from jaxtyping import Float
from tests.integration.setup import Setup, reinforce
from torch import Tensor

from rlgraph import Graph, node
from rlgraph.nodes import generate, logprobs, update
from rlgraph.records import Rollout
from rlgraph.testing import check_rollout

pytest.importorskip("vllm")

CLOSE = 1e-4
UPDATES = 4
BLOCK = 32
"""vLLM's on CPU: of a longer prompt, the beginning sits in the prefix cache."""


@node
def alternate(rollout: Rollout) -> Float[Tensor, " batch"]:
    """Push every other row's probability up, the rest down."""
    return 1.0 - 2.0 * (torch.arange(len(rollout)) % 2)


def sync_graph(setup: Setup) -> Graph:
    with Graph("sync") as graph:
        policy = setup.config.policy()
        rollout = generate(policy, setup.config.prompts(), samples=3)
        logprobs(policy, rollout)
        update(policy, reinforce, rollout, weight=alternate(rollout))
    return graph


def test_the_sampler_agrees_with_the_trainer_after_every_update(grpo: Setup) -> None:
    plan = grpo.plan(sync_graph(grpo))
    before = grpo.executor.call("policy.trainer", "weights").version
    rollouts = []
    for update_count in range(UPDATES):
        grpo.executor.run(plan)
        rollout, own = grpo.executor.fetch("generate"), grpo.executor.fetch("logprobs")
        check_rollout(rollout)
        assert (grpo.executor.fetch("take_prompts").attention_mask.sum(-1) > BLOCK).all()
        assert set(rollout.policy_version.tolist()) == {before + update_count}
        assert float((rollout.logprobs - own).abs().max()) < CLOSE
        rollouts.append(rollout)
    # The comparison would have shown it if the sampler were a single update behind.
    grpo.executor.inject({"generate": rollouts[-1]})
    grpo.executor.run(plan)
    newer = grpo.executor.fetch("logprobs")
    assert float((rollouts[-1].logprobs - newer).abs().max()) > 100 * CLOSE
