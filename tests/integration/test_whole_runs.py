"""The command with its default engines: Ray, vLLM and DeepSpeed, from start to end."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import rlgraph.run
from rlgraph.executors import Executor, StepReport
from rlgraph.scheduling.plan import Plan
from tests.integration.setup import LONG, REWARD, write_prompts

pytest.importorskip("vllm")


def arguments(model: str, folder: Path, *more: str) -> list[str]:
    return [
        *("rlgraph.graphs.grpo", "--policy.path", model, "--output", str(folder / "out")),
        *("--data.source", str(write_prompts(folder, LONG * 4))),
        *("--reward.function", f"{REWARD}:reward"),
        *("--prompts-per-step", "4", "--samples-per-prompt", "4"),
        *("--policy.sampler.max-new-tokens", "5", "--policy.sampler.kv-cache-mib", "64"),
        *("--policy.trainer.learning-rate", "3e-3"),
        *more,
    ]


class Watched:
    """An executor; notes which weights each training step sampled from."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.versions: list[set[int]] = []

    def run(self, plan: Plan) -> StepReport:
        report = self.executor.run(plan)
        if plan.graph.name == "grpo":
            rollout: Any = self.executor.fetch("generate")
            self.versions.append(set(rollout.policy_version.tolist()))
        return report

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executor, name)


def test_a_short_run_of_grpo(
    tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    watched: list[Watched] = []
    start = rlgraph.run.start

    def watch(*given: Any) -> Any:
        watched.append(Watched(start(*given)))
        return watched[0]

    monkeypatch.setattr(rlgraph.run, "start", watch)
    before = signal.getsignal(signal.SIGTERM)
    try:
        code = rlgraph.run.main(arguments(tiny_model, tmp_path, "--steps", "3"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert code == 0
    assert watched[0].versions == [{0}, {1}, {2}]
    lines = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    assert [step["step"] for step in steps] == [1, 2, 3]
    for step in steps:
        assert step["rollout/rows"] == 16
        assert 0 <= step["reward/mean"] <= 1
        assert step["policy/grad_norm"] > 0
        assert {"seconds/generate", "seconds/sync policy.sampler", "seconds/update"} <= set(step)
        assert "non_finite" not in step
    # Only the samples of the weights that are trained have a ratio of 1 to them.
    assert steps[0]["policy/ratio_max"] == pytest.approx(1, abs=1e-3)
    assert steps[2]["policy/ratio_max"] == pytest.approx(1, abs=1e-3)
    assert (tmp_path / "out" / "samples.jsonl").read_text()
    AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "policy")


# Python ignores Ctrl-C if whoever started it does, as a shell does for background jobs.
LISTEN = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("rlgraph.run", run_name="__main__")
"""


@pytest.mark.slow
def test_an_interrupt_ends_every_process(tiny_model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LISTEN, *arguments(tiny_model, tmp_path)]
    run = subprocess.Popen(
        [*command, "--steps", "100000", "--evaluation", ""],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert run.stdout is not None
        said = []
        for line in run.stdout:
            said.append(line)
            if "reward" in line and "step" in line.lower():
                break
        assert run.poll() is None, "".join(said)
        below = psutil.Process(run.pid).children(recursive=True)
        assert len(below) > 4, "Ray and its workers"
        run.send_signal(signal.SIGINT)
        rest, _ = run.communicate(timeout=60)
        assert run.returncode == 130, rest
        assert "interrupted" in rest
        _, alive = psutil.wait_procs(below, timeout=20)
        assert not alive
    finally:
        run.kill()
