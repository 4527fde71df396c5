"""Sleep and wake of the engines in plain torch."""

import dataclasses

import pytest
import torch
from conftest import make_prompts, make_rows
from test_transformers import CONTEXT, TEXTS, policy_gradient, policy_of

from rlgraph.engines.protocols import Sleeper, Weights
from rlgraph.engines.transformers import (
    TransformersSampler,
    TransformersScorer,
    TransformersTrainer,
)
from rlgraph.errors import EngineError


def learn(trainer, seeds):
    for seed in seeds:
        trainer.train(policy_gradient, make_rows(6, seed), {"advantages": torch.linspace(-2, 2, 6)})


@pytest.fixture
def context(tmp_path):
    return dataclasses.replace(CONTEXT, scratch=tmp_path)


def test_training_goes_on_after_sleep_as_if_nothing_had_been(tiny_model, context):
    rested, restless = (TransformersTrainer(policy_of(tiny_model), context) for _ in range(2))
    learn(restless, range(4))
    learn(rested, [0, 1])
    held = rested.bytes_held
    # Sent to another process, weights are looked at as arrays.
    sent = [tensor.numpy() for tensor in rested.weights().tensors.values()]
    rested.sleep()
    del sent
    assert rested.bytes_held == 0
    rested.wake()
    assert rested.bytes_held == held
    learn(rested, [2, 3])
    expected = restless.weights().tensors
    for name, tensor in rested.weights().tensors.items():
        assert torch.equal(tensor, expected[name]), name


def test_what_a_sleeping_engine_refuses(tiny_model, context):
    rows, policy = make_rows(3), policy_of(tiny_model)
    trainer, scorer = TransformersTrainer(policy, context), TransformersScorer(policy, context)
    critic = TransformersScorer(policy, context, head="value")
    sampler = TransformersSampler(policy, context)
    weights = Weights(0, {})
    actions = [
        ("train", lambda: learn(trainer, [0])),
        ("weights", trainer.weights),
        ("save", lambda: trainer.save(str(context.scratch / "saved"))),
        ("logprobs", lambda: trainer.logprobs(rows)),
        ("logprobs", lambda: scorer.logprobs(rows)),
        ("values", lambda: critic.values(rows)),
        ("generate", lambda: sampler.generate(make_prompts(TEXTS))),
        ("load_weights", lambda: sampler.load_weights(weights)),
    ]
    before = scorer.logprobs(rows), sampler.generate(make_prompts(TEXTS))
    for engine in (trainer, scorer, critic, sampler):
        assert isinstance(engine, Sleeper)
        engine.sleep()
        assert engine.asleep
        assert engine.bytes_held == 0
    for action, call in actions:
        with pytest.raises(EngineError, match=rf"^{action}: the Transformers.*asleep") as caught:
            call()
        assert tiny_model in str(caught.value)
    for engine in (trainer, scorer, critic, sampler):
        engine.wake()
    assert torch.equal(scorer.logprobs(rows), before[0])
    assert torch.equal(sampler.generate(make_prompts(TEXTS)).tokens, before[1].tokens)
