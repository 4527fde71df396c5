"""How a batch is cut, and on how many ranks, changes the time of a step and not its result."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from rlgraph import Graph
from rlgraph.executors.ray import RayExecutor
from rlgraph.loop import Job, RunConfig
from rlgraph.models import Stateful
from rlgraph.nodes import update
from rlgraph.settings import PolicyConfig, RunContext
from tests.engines.conftest import make_rows
from tests.integration.setup import policy_of, reinforce, sampled
from tests.toys import Counter

pytest.importorskip("deepspeed")

CLOSE = 1e-5
RATE = 1e-4
# Not a multiple of two, nor of any number of rows in a micro-batch.
ROWS = 7
STEPS = 3


def variants(path: str) -> dict[str, PolicyConfig]:
    rate = {"learning_rate": RATE}
    return {
        "whole": policy_of(path, trainer=rate),
        "row_by_row": policy_of(path, trainer=rate, max_tokens_per_micro_batch=1),
        "two_ranks": policy_of(path, trainer=rate | {"ranks": 2}, max_tokens_per_micro_batch=45),
        "plain_torch": policy_of(path, trainer=rate | {"engine": "transformers"}),
    }


def side_by_side(path: str) -> Graph:
    """One rollout trains every variant."""
    with Graph("variants") as graph:
        rollout = sampled(Stateful("counter", Counter, Counter))
        for name, settings in variants(path).items():
            update(settings(name), reinforce, rollout, weight=torch.linspace(-2, 2, ROWS))
    return graph


@pytest.fixture(scope="module")
def trained(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """Each variant's weights after a few steps on the same rollouts."""
    folder: Path = tmp_path_factory.mktemp("variants")
    graph = side_by_side(tiny_model)
    job = Job.of(graph, None, RunConfig(devices=2))
    executor = RayExecutor(job.residents, job.placement, RunContext(scratch=folder))
    try:
        before = executor.call("whole.trainer", "weights").tensors
        for step in range(STEPS):
            executor.inject({"sampled": make_rows(ROWS, seed=step)})
            executor.run(job.plan())
        weights = {n: executor.call(f"{n}.trainer", "weights").tensors for n in variants("")}
    finally:
        executor.close()
    return {"before": before, **weights}


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Key biases aside: attention does not depend on them, so their gradient is rounding
    noise around 0, which Adam divides by its own size.
    """
    assert one.keys() == other.keys()
    names = [name for name in one if not name.endswith("k_proj.bias")]
    return max(float((one[name] - other[name]).abs().max()) for name in names)


@pytest.mark.parametrize("variant", ["row_by_row", "two_ranks", "plain_torch"])
def test_the_resulting_weights_are_the_same(trained, variant: str) -> None:
    assert largest_difference(trained[variant], trained["whole"]) < CLOSE
    assert largest_difference(trained["before"], trained["whole"]) > RATE
