"""The same graph means the same under both executors: fed alike, it gives the same numbers."""

from pathlib import Path

import pytest
import torch
from tests.integration.setup import Setup, grpo_config, policy_of

from rlgraph.engines.transformers import TransformersTrainer
from rlgraph.executors.local import LocalExecutor
from rlgraph.graphfile import load_graph_file
from rlgraph.loop import Job, RunConfig
from rlgraph.settings import RunContext

pytest.importorskip("vllm")

CLOSE = 1e-4


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
