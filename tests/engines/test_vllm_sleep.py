"""Sleep and wake of the sampler against real vLLM on CPU."""

import pytest
import torch
from conftest import make_prompts

pytest.importorskip("vllm")

from vllm_engines import CLOSE, TEXTS, both_heads, jolt, naive_logprobs, same, weights_of

from rlgraph.engines import vllm_memory, vllm_sleep
from rlgraph.engines.occupancy import occupied
from rlgraph.engines.protocols import Sleeper
from rlgraph.errors import EngineError

MIB = 1 << 20
CPU = torch.device("cpu")


def test_it_is_a_sleeper(engine):
    assert isinstance(engine, Sleeper)


def test_sleep_frees_memory_and_changes_nothing(engine):
    prompts = make_prompts(TEXTS)
    before = engine.generate(prompts, samples=3)
    taken = occupied(CPU)
    assert engine.bytes_held == engine.bytes_awake > 256 * MIB
    engine.sleep()
    engine.sleep()
    assert engine.asleep
    assert 0 < engine.bytes_held == engine.bytes_asleep < 2 * MIB
    assert taken - occupied(CPU) > 200 * MIB
    engine.wake()
    engine.wake()
    assert not engine.asleep
    assert engine.bytes_held == engine.bytes_awake
    assert same(before, engine.generate(prompts, samples=3))


@both_heads
def test_dropped_weights_hold_nothing_and_come_back_with_a_load(engine, trainer):
    prompts = make_prompts(TEXTS)
    before, held = engine.generate(prompts, samples=3), engine.bytes_held
    engine.sleep(keep_weights=False)
    assert engine.asleep
    assert engine.bytes_held == 0
    engine.wake()
    engine.load_weights(weights_of(trainer, 0))
    engine.verify(weights_of(trainer, 0))
    assert engine.bytes_held == held
    assert same(before, engine.generate(prompts, samples=3))


@both_heads
def test_weights_can_be_loaded_before_the_cache_wakes(engine, trainer):
    prompts = make_prompts(TEXTS)
    engine.generate(prompts)
    for version in (1, 2):
        engine.sleep(keep_weights=False)
        engine.wake("weights")
        assert engine.asleep
        jolt(trainer, seed=version)
        engine.load_weights(weights_of(trainer, version))
        engine.verify(weights_of(trainer, version))
        assert engine.bytes_held == engine.bytes_asleep
        engine.wake("kv_cache")
        rollout = engine.generate(prompts, samples=2)
        expected = naive_logprobs(trainer, rollout)
        torch.testing.assert_close(rollout.logprobs, expected, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("keep", [True, False])
def test_back_to_sleep_with_only_the_weights_awake(engine, trainer, keep):
    before = engine.generate(make_prompts(TEXTS))
    engine.sleep(keep_weights=False)
    engine.wake("weights")
    engine.load_weights(weights_of(trainer, 0))
    engine.sleep(keep_weights=keep)
    assert engine.bytes_held == (engine.bytes_asleep if keep else 0)
    engine.wake()
    if not keep:
        with pytest.raises(EngineError, match="load_weights first"):
            engine.generate(make_prompts(TEXTS))
        engine.load_weights(weights_of(trainer, 0))
    assert engine.bytes_held == engine.bytes_awake
    assert same(before, engine.generate(make_prompts(TEXTS)))


def test_what_a_sleeping_engine_refuses(engine, trainer):
    prompts = make_prompts(["a"])
    engine.sleep(keep_weights=False)
    for action, call in (
        ("generate", lambda: engine.generate(prompts)),
        ("load_weights", lambda: engine.load_weights(weights_of(trainer, 1))),
        ("checksum", lambda: engine.checksum()),
    ):
        with pytest.raises(EngineError, match=rf"{action}: .* is asleep; it must be awake"):
            call()
    with pytest.raises(EngineError, match="the weights wake before the KV cache"):
        engine.wake("kv_cache")
    engine.wake("weights")
    with pytest.raises(EngineError, match=r"generate: .* is weights awake"):
        engine.generate(prompts)
    engine.sleep()
    engine.wake()
    for action, call in (
        ("generate", lambda: engine.generate(prompts)),
        ("checksum", engine.checksum),
    ):
        with pytest.raises(EngineError, match=f"{action}: .*dropped in sleep; load_weights first"):
            call()


@pytest.mark.parametrize("missing", ["weights", "kv_cache"])
def test_without_enough_memory_it_sleeps_on(engine, trainer, monkeypatch, missing):
    before = engine.generate(make_prompts(TEXTS))
    engine.sleep(keep_weights=False)
    # More than the weights need, less than the cache.
    few = 0 if missing == "weights" else 100 * MIB
    with monkeypatch.context() as patched:
        patched.setattr(vllm_memory, "available", lambda device: few)
        with pytest.raises(
            EngineError, match=rf"{missing} sleep on: \d+ MiB wanted.*not enough memory"
        ):
            engine.wake()
    assert engine.asleep
    assert (engine.bytes_held == 0) == (missing == "weights")
    engine.wake()
    engine.load_weights(weights_of(trainer, 0))
    assert same(before, engine.generate(make_prompts(TEXTS)))


def test_a_sleep_that_frees_nothing_is_an_error(engine, monkeypatch):
    before = engine.generate(make_prompts(TEXTS))
    with monkeypatch.context() as patched:
        patched.setattr(vllm_memory, "occupied", lambda device: 1000 * MIB)
        with pytest.raises(EngineError, match="let go, but only 0 MiB became free"):
            engine.sleep()
    assert not engine.asleep
    assert engine.bytes_held == engine.bytes_awake
    assert same(before, engine.generate(make_prompts(TEXTS)))


def test_a_sleep_that_fails_in_a_worker_leaves_it_awake(engine, monkeypatch):
    before = engine.generate(make_prompts(TEXTS))

    def fail(*arguments, **options):
        raise EngineError("sleep: no host memory")

    with monkeypatch.context() as patched:
        patched.setattr(vllm_sleep.EngineMemory, "sleep", fail)
        with pytest.raises(EngineError, match="no host memory"):
            engine.sleep()
    assert not engine.asleep
    assert same(before, engine.generate(make_prompts(TEXTS)))
