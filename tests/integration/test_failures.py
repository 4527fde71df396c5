"""A process that dies ends the run with an error that names it, and leaves nothing behind."""

import os
import signal
from pathlib import Path

import psutil
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rlgraph import EngineError, Graph, Split, node
from rlgraph.engines.protocols import Sampler
from rlgraph.executors.ray import RayExecutor
from rlgraph.loop import Job, RunConfig
from rlgraph.models import Stateful
from rlgraph.nodes import update
from rlgraph.records import Rollout
from rlgraph.settings import RunContext
from tests.engines.conftest import make_rows
from tests.integration.setup import policy_of, sampled
from tests.toys import Counter

pytest.importorskip("deepspeed")


@node(split=Split.ROWS)
def die_sampling(policy: Sampler, rollout: Rollout) -> Float[Tensor, " batch"]:
    os.kill(os.getpid(), signal.SIGKILL)
    return torch.zeros(len(rollout))


def die_training(logprobs: Float[Tensor, "batch seq"]) -> Float[Tensor, "batch seq"]:
    """The second rank dies in the middle of a step that the first one waits for."""
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return logprobs


def workers() -> list[psutil.Process]:
    """The worker processes below this one."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if any("ray::Worker" in p for p in cmdline(process))]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_dead_workers_are_named_and_closing_ends_the_rest(tiny_model: str, tmp_path: Path) -> None:
    settings = policy_of(tiny_model, trainer={"ranks": 2}, sampler={"engine": "transformers"})
    with Graph("deadly") as graph:
        rollout = sampled(Stateful("counter", Counter, Counter))
        # A policy of its own, which no trainer keeps up to date.
        die_sampling(settings("other"), rollout)
        update(settings(), die_training, rollout)
    others = set(workers())
    job = Job.of(graph, None, RunConfig(devices=2))
    executor = RayExecutor(job.residents, job.placement, RunContext(scratch=tmp_path))
    rows = make_rows(6)
    try:
        started = set(workers()) - others
        assert len(started) == 4, "two ranks, a sampler, and a host worker"
        executor.inject({"sampled": rows})
        with pytest.raises(EngineError, match="die_sampling on worker 0: the worker process died"):
            executor.run(job.plan())
        executor.inject({"sampled": rows, "die_sampling": torch.zeros(6)})
        with pytest.raises(EngineError, match="update on worker"):
            executor.run(job.plan())
    finally:
        executor.close()
    _, alive = psutil.wait_procs(started, timeout=20)
    assert not alive
