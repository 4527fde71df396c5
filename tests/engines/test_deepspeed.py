import dataclasses
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import make_rows

from rlgraph.engines.deepspeed import DeepSpeedTrainer, zero_settings
from rlgraph.engines.transformers import TransformersScorer, TransformersTrainer
from rlgraph.errors import EngineError
from rlgraph.metrics import Metric, collect, merge_into
from rlgraph.settings import PolicyConfig, RunContext, TrainerConfig

HERE = Path(__file__).parent
FLOAT32 = [*(f"stage {stage}" for stage in range(4)), "stage 3, checkpointing", "stage 2, offload"]


def start_ranks(*arguments: str, count: int = 2) -> list[subprocess.Popen]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")])
    shared = {
        "PYTHONPATH": path,
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    return [
        subprocess.Popen(
            [sys.executable, str(HERE / "deepspeed_ranks.py"), *arguments],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]


@pytest.fixture(scope="module")
def trained(tiny_model, tmp_path_factory):
    """What each of two ranks found, variant by variant; they start once for all tests."""
    folder = tmp_path_factory.mktemp("deepspeed")
    ranks = start_ranks("train", tiny_model, str(folder))
    try:
        for rank in ranks:
            output, _ = rank.communicate(timeout=500)
            assert rank.returncode == 0, output[-4000:]
    finally:
        for rank in ranks:
            rank.kill()
    return folder, [torch.load(folder / f"rank{n}.pt", weights_only=False) for n in range(2)]


@pytest.fixture(scope="module")
def expected(tiny_model):
    """The same updates by plain torch in one process: weights, log-probabilities, metrics."""
    from deepspeed_ranks import CONTEXT, policy_of, updates

    engine = TransformersTrainer(policy_of(tiny_model), CONTEXT)
    with collect() as metrics:
        updates(engine)
    return engine.weights().tensors, engine.logprobs(make_rows(5, 3)), metrics


@pytest.mark.slow
@pytest.mark.parametrize("variant", FLOAT32)
def test_two_ranks_equal_one_process(trained, expected, variant):
    (first, second), (weights, logprobs, metrics) = (r[variant] for r in trained[1]), expected
    assert first["weights"].keys() == weights.keys()
    for name, tensor in weights.items():
        assert torch.allclose(first["weights"][name], tensor, atol=1e-5, rtol=0), name
    assert torch.allclose(first["logprobs"], logprobs, atol=5e-5)
    assert first["version"] == second["version"] == 4
    assert second["weights"] == {}
    assert len(second["logprobs"]) == 0
    merged = {name: Metric(*parts) for name, parts in first["metrics"].items()}
    merge_into(merged, {name: Metric(*parts) for name, parts in second["metrics"].items()})
    assert merged.keys() == metrics.keys()
    for name, metric in metrics.items():
        assert merged[name].count == metric.count
        assert merged[name].value == pytest.approx(metric.value, rel=1e-4), name


@pytest.mark.slow
@pytest.mark.parametrize("stage", range(4))
def test_bfloat16_learns_the_same_up_to_its_precision(trained, expected, stage):
    found = trained[1][0][f"bf16 {stage}"]
    for name, tensor in expected[0].items():
        assert torch.allclose(found["weights"][name], tensor, atol=1e-3, rtol=1e-2), name
    assert found["metrics"]["policy/skipped_steps"][1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["stage 0", "stage 3"])
def test_saved_weights_are_the_trained_ones(trained, expected, variant):
    folder, _ = trained
    scorer = TransformersScorer(PolicyConfig(path=str(folder / variant)), RunContext())
    assert torch.allclose(scorer.logprobs(make_rows(5, 3)), expected[1], atol=5e-5)


@pytest.mark.slow
def test_frozen_models_can_be_sharded(trained, tiny_model):
    plain = TransformersScorer(PolicyConfig(path=tiny_model), RunContext())
    found = trained[1][0]["scorer"]
    assert torch.allclose(found, plain.logprobs(make_rows(5, 3)), atol=1e-5)
    assert not trained[1][0]["critic"].any()


@pytest.mark.parametrize(
    ("count", "stages"), [(1, "03"), pytest.param(2, "0123", marks=pytest.mark.slow)]
)
def test_sleep_frees_everything_and_changes_nothing(tiny_model, tmp_path, count, stages):
    ranks = start_ranks("sleep", tiny_model, str(tmp_path), stages, count=count)
    try:
        for rank in ranks:
            output, _ = rank.communicate(timeout=300)
            assert rank.returncode == 0, output[-4000:]
    finally:
        for rank in ranks:
            rank.kill()
    for number in range(count):
        results = torch.load(tmp_path / f"rank{number}.pt", weights_only=False)
        scorer = results.pop("scorer")
        assert scorer["asleep"] == 0
        assert torch.equal(scorer["before"], scorer["after"])
        for stage, found in results.items():
            assert found["asleep"] == 0 < found["held"] == found["awake"]
            said = [text.split(":")[0] for text in found["refused"]]
            assert said == ["train", "weights", "save", "logprobs"], stage
            assert all(
                f"DeepSpeedTrainer of '{tiny_model}' is asleep" in t for t in found["refused"]
            )
            rested, restless = found["weights"]
            assert rested.keys() == restless.keys()
            assert bool(rested) == (number == 0)
            for name, tensor in restless.items():
                assert torch.equal(rested[name], tensor), (stage, name)


@pytest.mark.slow
def test_a_rank_that_hangs_is_noticed(tiny_model):
    waiting, hanging = start_ranks("hang", tiny_model)
    try:
        output, _ = waiting.communicate(timeout=200)
    finally:
        waiting.kill()
        hanging.kill()
    assert waiting.returncode == 0, output[-4000:]
    assert "noticed" in output


def test_what_is_missing_in_the_environment_is_named(tiny_model, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(EngineError, match=r"needs WORLD_SIZE, .*MASTER_ADDR"):
        DeepSpeedTrainer(PolicyConfig(path=tiny_model), RunContext())


def test_settings_follow_the_configuration():
    trainer = TrainerConfig(max_grad_norm=0.5, offload_optimizer=True)
    policy = dataclasses.replace(PolicyConfig(), trainer=trainer)
    plain = zero_settings(policy, 2, torch.float32)
    assert plain["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert plain["gradient_clipping"] == 0.5
    assert "bf16" not in plain
    assert zero_settings(policy, 3, torch.bfloat16)["bf16"] == {"enabled": True}
    # Stage 0 is clipped by the adapter itself.
    assert zero_settings(policy, 0, torch.float32)["gradient_clipping"] == 0
