"""A process that dies ends the run with an error that names it, and leaves nothing behind."""

import os
import signal
from pathlib import Path

import psutil
import pytest
import torch
from jaxtyping import Float
from tests.engines.conftest import make_rows
from tests.integration.setup import policy_of, sampled
from tests.toys import Counter
from torch import Tensor

from rlgraph import EngineError, Graph, Split, node
from rlgraph.engines.protocols import Sampler
from rlgraph.executors.ray import RayExecutor
from rlgraph.loop import Job, RunConfig
from rlgraph.models import Stateful
from rlgraph.nodes import logprobs, update
from rlgraph.records import Rollout
from rlgraph.settings import RunContext

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
    policy = policy_of(tiny_model, trainer={"ranks": 2}, sampler={"engine": "transformers"})()
    rows = make_rows(6)

    def graph_of(name: str) -> Graph:
        with Graph(name) as graph:
            rollout = sampled(Stateful("counter", Counter, Counter))
            if name == "sampling":
                die_sampling(policy, rollout)
                logprobs(policy, rollout)
            else:
                update(policy, die_training, rollout)
        return graph

    others = set(workers())
    sampling, training = graph_of("sampling"), graph_of("training")
    job = Job.of(sampling, training, RunConfig(devices=2))
    executor = RayExecutor(job.residents, job.placement, RunContext(scratch=tmp_path))
    try:
        started = set(workers()) - others
        assert len(started) == 4, "two ranks, a sampler, and a host worker"
        executor.inject({"sampled": rows})
        with pytest.raises(EngineError, match="die_sampling on worker 0: the worker process died"):
            executor.run(job.plan())
        executor.inject({"sampled": rows})
        with pytest.raises(EngineError, match="update on worker"):
            executor.run(Job.of(training, None, RunConfig(devices=2)).plan())
    finally:
        executor.close()
    gone, alive = psutil.wait_procs(started, timeout=20)
    assert not alive
