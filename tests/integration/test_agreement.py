"""Engines that hold the same weights say the same: vLLM and DeepSpeed, Ray and this process."""

from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rlgraph import Graph, node
from rlgraph.engines.transformers import TransformersTrainer
from rlgraph.executors.local import LocalExecutor
from rlgraph.graphfile import load_graph_file
from rlgraph.job import Job, RunConfig
from rlgraph.nodes import generate, logprobs, update
from rlgraph.records import Rollout
from rlgraph.settings import RunContext
from rlgraph.testing import check_rollout
from tests.integration.setup import Setup, grpo_config, policy_of, reinforce

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


def test_advantages_losses_and_all_metrics_agree(grpo: Setup, tmp_path: Path) -> None:
    # Whatever the started trainer has been through: the local one begins with its weights.
    grpo.executor.call("policy.trainer", "save", str(tmp_path / "policy"))
    context = RunContext(scratch=tmp_path)
    trainer = TransformersTrainer(policy_of(str(tmp_path / "policy")), context)
    graph = load_graph_file("rlgraph.graphs.grpo").build(grpo_config(grpo.model, 1, tmp_path))
    job = Job.of(graph, None, RunConfig())
    local = LocalExecutor(job.residents, context, {"policy.trainer": trainer})
    ours = local.run(job.plan())

    grpo.executor.inject({"generate": local.fetch("generate")})
    theirs = grpo.executor.run(grpo.job.plan())

    assert local.fetch("score").scores.std() > 0, "advantages that are all 0 prove nothing"
    for name in ("logprobs", "group_advantage"):
        torch.testing.assert_close(
            grpo.executor.fetch(name), local.fetch(name), atol=CLOSE, rtol=CLOSE
        )
    for field in ("scores", "valid"):
        assert torch.equal(
            getattr(grpo.executor.fetch("score"), field), getattr(local.fetch("score"), field)
        )
    compared = {name for name in theirs.metrics if not name.startswith("data/")}
    assert {"policy/loss", "policy/grad_norm", "kl/reference", "reward/mean"} <= compared
    assert compared <= set(ours.metrics)
    for name in compared:
        expected = pytest.approx(ours.metrics[name].value, abs=CLOSE, rel=10 * CLOSE)
        assert theirs.metrics[name].value == expected, name
    local.close()
