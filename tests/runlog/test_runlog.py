import json
import math
import sys
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph import RlgraphError
from rlgraph.runlog import Evaluation, Event, LogConfig, RunLog, Samples, Step
from rlgraph.runlog.jsonl import JsonlSink

QUIET = LogConfig(tensorboard=False)


def lines(path) -> list[dict]:
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


class Memory:
    """A sink of a user's own."""

    def __init__(self):
        self.entries, self.closed = [], 0

    def write(self, entry):
        self.entries.append(entry)

    def close(self):
        self.closed += 1


def test_metrics_are_one_object_a_step_flushed_at_once(tmp_path):
    with RunLog(tmp_path / "run", QUIET, 2, "t") as log:
        log.step(1, {"reward/mean": 0.5, "my/own": torch.tensor(2.0)}, {"generate": 0.25})
        (line,) = lines(tmp_path / "run" / "metrics.jsonl")
        assert line.pop("time") > 0
        assert line == {"step": 1, "reward/mean": 0.5, "my/own": 2.0, "seconds/generate": 0.25}
        log.step(2, {}, {})
    assert [line["step"] for line in lines(tmp_path / "run" / "metrics.jsonl")] == [1, 2]


def test_what_is_not_finite_is_null_named_and_warned_of_once(tmp_path):
    with RunLog(tmp_path, QUIET, 2, "t") as log:
        for step in (1, 2):
            log.step(step, {"kl/reference": math.nan, "a/b": math.inf, "c/d": 1.0}, {})
    for line in lines(tmp_path / "metrics.jsonl"):
        assert line["kl/reference"] is None and line["a/b"] is None and line["c/d"] == 1.0
        assert line["non_finite"] == ["kl/reference", "a/b"]
    warnings = [e for e in lines(tmp_path / "events.jsonl") if e["kind"] == "warning"]
    assert [w["message"] for w in warnings] == ["not finite: kl/reference, a/b"]
    assert warnings[0]["step"] == 1


@pytest.mark.parametrize("name", ["step", "time", "non_finite", "seconds/total"])
def test_a_metric_cannot_take_a_name_that_the_log_uses(tmp_path, name):
    with RunLog(tmp_path, QUIET, 1, "t") as log, pytest.raises(ValueError, match=name):
        log.step(1, {name: 1.0}, {})


def test_a_metric_that_is_no_number_is_named(tmp_path):
    with RunLog(tmp_path, QUIET, 1, "t") as log, pytest.raises(ValueError, match="my/metric"):
        log.step(1, {"my/metric": torch.zeros(2)}, {})


def test_samples_hold_what_a_reader_needs(tmp_path, rollout, rewards):
    rows = rollout(["1", "three", ""])
    rows.truncated[1] = True
    with RunLog(tmp_path, QUIET, 9, "t") as log:
        log.samples(1, rows, rewards([1.0, 0.5, math.nan]))
    got = lines(tmp_path / "samples.jsonl")
    assert [(s["prompt"], s["response"], s["answer"]) for s in got] == [
        ("0+1=", "1", "1"),
        ("1+1=", "three", "2"),
        ("2+1=", "", "3"),
    ]
    assert [s["reward"] for s in got] == [1.0, 0.5, None]
    assert [s["length"] for s in got] == [1, 5, 0]
    assert [s["truncated"] for s in got] == [False, True, False]
    assert {s["step"] for s in got} == {1}


def test_samples_are_spread_over_the_batch_and_limited(tmp_path, rollout, rewards):
    with RunLog(tmp_path, LogConfig(tensorboard=False, samples=2), 9, "t") as log:
        log.samples(1, rollout(list("abcdef")), rewards([0.0] * 6))
    assert [s["response"] for s in lines(tmp_path / "samples.jsonl")] == ["a", "d"]


def test_samples_come_in_their_turn_and_at_both_ends(tmp_path, rollout, rewards):
    with RunLog(tmp_path, LogConfig(tensorboard=False, samples_every=4), 10, "t") as log:
        for step in range(1, 11):
            log.samples(step, rollout(["a"]), rewards([0.0]))
            assert log.wants_samples(step) == (step in (1, 4, 8, 10))
    assert [s["step"] for s in lines(tmp_path / "samples.jsonl")] == [1, 4, 8, 10]


def test_no_samples_if_none_are_asked_for(tmp_path, rollout, rewards):
    with RunLog(tmp_path, LogConfig(tensorboard=False, samples=0), 1, "t") as log:
        assert not log.wants_samples(1)
        log.samples(1, rollout(["a"]), rewards([0.0]))
    assert lines(tmp_path / "samples.jsonl") == []


def test_rows_without_an_answer_and_with_odd_columns(tmp_path, rollout, rewards):
    chat = [{"role": "user", "content": "hi"}]
    columns = [{"prompt": chat}, {"prompt": "p", "answer": {"x": math.nan}}, {}]
    with RunLog(tmp_path, QUIET, 1, "t") as log:
        log.samples(1, rollout(["a", "\ud800", "<|end|>\x00"], columns), rewards([0.0] * 3))
    got = lines(tmp_path / "samples.jsonl")
    assert got[0]["prompt"] == chat and "answer" not in got[0]
    assert got[1]["answer"] == {"x": None} and got[1]["response"] == "\ud800"
    assert got[2]["prompt"] is None and got[2]["response"] == "<|end|>\x00"


def test_rollout_and_rewards_must_belong_together(tmp_path, rollout, rewards):
    with (
        RunLog(tmp_path, QUIET, 1, "t") as log,
        pytest.raises(ValueError, match="2 rollout rows, but 1 rewards"),
    ):
        log.samples(1, rollout(["a", "b"]), rewards([0.0]))


def test_events_and_evaluations(tmp_path):
    with RunLog(tmp_path, QUIET, 1, "t") as log:
        log.event("checkpoint", "saved", path=tmp_path, step=1)
        log.evaluation(1, {"reward/mean": 0.9})
    checkpoint, evaluation, finished = lines(tmp_path / "events.jsonl")
    assert checkpoint["kind"] == "checkpoint" and checkpoint["path"] == str(tmp_path)
    assert evaluation["kind"] == "evaluation" and evaluation["metrics"] == {"reward/mean": 0.9}
    assert finished["kind"] == "finished"


def test_a_failure_is_an_event_and_goes_on(tmp_path):
    sink = Memory()
    with (
        pytest.raises(KeyboardInterrupt),
        RunLog(tmp_path, QUIET, 1, "t", sinks=[sink]) as log,
    ):
        log.step(1, {}, {})
        raise KeyboardInterrupt
    assert lines(tmp_path / "events.jsonl")[-1]["kind"] == "stopped"
    assert sink.closed == 1


def test_a_resumed_run_goes_on_in_the_same_files(tmp_path):
    for step in (1, 2):
        with RunLog(tmp_path, QUIET, 2, "t") as log:
            log.step(step, {}, {})
    assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2]


def test_a_users_own_sink_gets_everything_in_order(tmp_path, rollout, rewards):
    sink = Memory()
    with RunLog(tmp_path, QUIET, 1, "t", sinks=[sink]) as log:
        log.step(1, {"a/b": 1.0}, {"total": 2.0})
        log.samples(1, rollout(["a"]), rewards([0.0]))
        log.evaluation(1, {})
    assert [type(entry) for entry in sink.entries] == [Step, Samples, Evaluation, Event]
    assert sink.entries[0].total_seconds == 2.0


def test_a_log_that_is_not_open_says_so(tmp_path):
    log = RunLog(tmp_path, QUIET, 1, "t")
    with pytest.raises(RuntimeError, match="not open"):
        log.step(1, {}, {})
    with log:
        pass
    with pytest.raises(RuntimeError, match="not open"):
        log.step(1, {}, {})


def test_tensorboard_has_the_numbers_and_the_samples(tmp_path, rollout, rewards):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with RunLog(tmp_path, LogConfig(), 2, "t") as log:
        log.step(1, {"reward/mean": 0.25}, {"total": 1.5})
        log.step(2, {"reward/mean": 0.75}, {"total": 1.5})
        log.samples(2, rollout(["forty-two"]), rewards([1.0]))
        log.evaluation(2, {"reward/mean": 0.5})
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(s.step, s.value) for s in events.Scalars("reward/mean")] == [(1, 0.25), (2, 0.75)]
    assert [s.value for s in events.Scalars("seconds/total")] == [1.5, 1.5]
    assert [s.value for s in events.Scalars("evaluation/reward/mean")] == [0.5]
    text = events.Tensors("samples/text_summary")[0].tensor_proto.string_val[0]
    assert b"forty-two" in text


def test_wandb_that_is_missing_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    sink = Memory()
    log = RunLog(tmp_path, LogConfig(tensorboard=False, wandb=True), 1, "t", sinks=[sink])
    with pytest.raises(RlgraphError, match=r"--log\.wandb needs the wandb package"), log:
        pass


def test_wandb_gets_numbers_samples_and_settings_and_no_key(
    tmp_path, monkeypatch, rollout, rewards
):
    class Run:
        def __init__(self):
            self.logged, self.finished, self.alerts = [], 0, []
            self.log, self.alert = self.logged.append, lambda **a: self.alerts.append(a)

        def define_metric(self, *_, **__): ...

        def finish(self):
            self.finished += 1

    run, asked = Run(), {}
    fake = ModuleType("wandb")
    fake.init = lambda **given: asked.update(given) or run
    fake.Table = lambda columns, data: (columns, data)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_API_KEY", "secret-key")
    config = LogConfig(tensorboard=False, wandb=True, wandb_project="mine")
    with RunLog(tmp_path, config, 1, "grpo", settings={"seed": 3}) as log:
        log.step(1, {"reward/mean": 0.5}, {"total": 1.0})
        log.samples(1, rollout(["a"]), rewards([1.0]))
        log.event("warning", "careful")
    assert (asked["project"], asked["name"], asked["config"]) == ("mine", "grpo", {"seed": 3})
    assert run.logged[0] == {"step": 1, "reward/mean": 0.5, "seconds/total": 1.0}
    columns, data = run.logged[1]["samples"]
    assert dict(zip(columns, data[0], strict=True))["response"] == "a"
    assert run.alerts == [{"title": "warning", "text": "careful"}]
    assert run.finished == 1
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any(b"secret-key" in path.read_bytes() for path in written)


@given(
    st.dictionaries(
        st.text().filter(lambda name: name not in ("step", "time", "non_finite")),
        st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=False),
        max_size=5,
    )
)
def test_whatever_the_numbers_the_file_is_strict_json(tmp_path_factory, metrics):
    folder = tmp_path_factory.mktemp("run")
    sink = JsonlSink(folder)
    sink.write(Step(1, metrics, {}))
    sink.close()
    (line,) = (folder / "metrics.jsonl").read_bytes().splitlines()
    got = json.loads(line, parse_constant=pytest.fail)
    for name, value in metrics.items():
        assert got[name] == (value if math.isfinite(value) else None)


@pytest.mark.parametrize("wrong", [{"samples": -1}, {"samples_every": 0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RlgraphError, match="--log"):
        LogConfig(**wrong)
