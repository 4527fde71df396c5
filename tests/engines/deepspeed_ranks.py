"""One rank of the DeepSpeed tests: run by test_deepspeed.py, twice at a time."""

import dataclasses
import datetime
import os
import signal
import sys
from pathlib import Path

import torch
from conftest import make_rows
from test_transformers import policy_gradient

from rlgraph.engines.deepspeed import DeepSpeedScorer, DeepSpeedTrainer, limit_waiting
from rlgraph.errors import EngineError
from rlgraph.metrics import collect
from rlgraph.settings import PolicyConfig, RunContext, TrainerConfig

CONTEXT = RunContext(seed=5, steps=4)
WAIT = datetime.timedelta(seconds=60)


def policy_of(path, **trainer):
    settings = {"learning_rate": 1e-4, "schedule": "linear", "weight_decay": 0.1} | trainer
    return PolicyConfig(path=path, max_tokens_per_micro_batch=60, trainer=TrainerConfig(**settings))


def updates(engine):
    """Updates with uneven shares, with fewer rows than ranks, and with a spoiled batch."""
    for seed, count in enumerate((9, 1, 4, 7)):
        advantages = torch.linspace(-2, 2, count) + 0.5
        if count == 4:
            advantages[2] = torch.nan
        options = {"minibatches": 2, "epochs": 2} if count == 7 else {}
        inputs = {"advantages": advantages}
        engine.train(policy_gradient, make_rows(count, seed), inputs, **options)


def train(path, folder):
    rank, results = int(os.environ["RANK"]), {}
    variants = {f"stage {stage}": {"zero_stage": stage} for stage in range(4)}
    variants["stage 3, checkpointing"] = {"zero_stage": 3, "gradient_checkpointing": True}
    variants["stage 2, offload"] = {"zero_stage": 2, "offload_optimizer": True}
    variants |= {f"bf16 {stage}": {"zero_stage": stage, "dtype": "bfloat16"} for stage in range(4)}
    for name, settings in variants.items():
        engine = DeepSpeedTrainer(policy_of(path, **settings), CONTEXT, timeout=WAIT)
        with collect() as metrics:
            updates(engine)
        # Ranks score their own rows; here one of them has none.
        rows = make_rows(5 if rank == 0 else 0, 3)
        scored = engine.logprobs(rows)
        weights = engine.weights()
        results[name] = {
            "metrics": {key: dataclasses.astuple(metric) for key, metric in metrics.items()},
            "weights": {key: tensor.float().clone() for key, tensor in weights.tensors.items()},
            "version": weights.version,
            "logprobs": scored,
        }
        if name in ("stage 0", "stage 3"):
            engine.save(str(folder / name))
    scorer = DeepSpeedScorer(policy_of(path, zero_stage=3), CONTEXT, timeout=WAIT)
    results["scorer"] = scorer.logprobs(make_rows(5 if rank == 0 else 0, 3))
    critic = DeepSpeedTrainer(policy_of(path, zero_stage=3), CONTEXT, head="value", timeout=WAIT)
    results["critic"] = critic.values(make_rows(5 if rank == 0 else 0, 3))
    torch.save(results, folder / f"rank{rank}.pt")


def sleep(path, folder, stages):
    """Trainers that sleep once between their updates, and others that do not."""
    rank, results = os.environ["RANK"], {}
    context = dataclasses.replace(CONTEXT, scratch=folder)
    for stage in map(int, stages):
        policy = policy_of(path, zero_stage=stage)
        rested = DeepSpeedTrainer(policy, context, timeout=WAIT)
        restless = DeepSpeedTrainer(policy, context, timeout=WAIT)
        updates(restless)
        updates(rested)
        held = rested.bytes_held
        rested.sleep()
        found = {"held": held, "asleep": rested.bytes_held, "refused": []}
        rows = make_rows(4)
        for call in (
            lambda: updates(rested),  # noqa: B023
            rested.weights,
            lambda: rested.save(str(folder)),  # noqa: B023
            lambda: rested.logprobs(rows),  # noqa: B023
        ):
            try:
                call()
            except EngineError as error:
                found["refused"].append(str(error))
        updates(restless)  # the others' memory is not touched
        rested.wake()
        found["awake"] = rested.bytes_held
        updates(rested)
        found["weights"] = [
            {name: tensor.clone() for name, tensor in engine.weights().tensors.items()}
            for engine in (rested, restless)
        ]
        results[stage] = found
    scorer = DeepSpeedScorer(policy_of(path, zero_stage=3), context, timeout=WAIT)
    before = scorer.logprobs(make_rows(4))
    scorer.sleep()
    results["scorer"] = {"asleep": scorer.bytes_held, "before": before}
    scorer.wake()
    results["scorer"]["after"] = scorer.logprobs(make_rows(4))
    torch.save(results, folder / f"rank{rank}.pt")


def hang(path):
    """Rank 1 never takes part in the update; rank 0 has to notice."""
    engine = DeepSpeedTrainer(policy_of(path, zero_stage=2), CONTEXT, timeout=WAIT)
    if os.environ["RANK"] == "1":
        signal.pause()
    limit_waiting(datetime.timedelta(seconds=2))
    try:
        updates(engine)
    except RuntimeError as error:
        print("noticed:", error, flush=True)
    os._exit(0)  # an orderly exit would wait for the other rank


if __name__ == "__main__":
    if sys.argv[1] == "hang":
        hang(sys.argv[2])
    elif sys.argv[1] == "sleep":
        sleep(sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    else:
        train(sys.argv[2], Path(sys.argv[3]))
