"""Seconds per GRPO step, side by side with TRL's GRPOTrainer.

Same model, prompts, reward, group size, length limit, optimizer and loss; float32 on the
CPU. Each side runs in a process of its own, in turn, with the engines that it uses by
default: rlgraph Ray, vLLM and DeepSpeed; TRL generation and training in transformers.
Steps of warm-up are left out on both sides.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import rlgraph  # noqa: F401  Before whatever imports transformers.

# isort: split
import tyro
from load import Load
from rich.console import Console
from rich.table import Table
from workloads import WORKLOADS, Workload, prepare

HERE = Path(__file__).parent
TIMEOUT = 1800.0
"""Seconds that one side may take."""


@dataclass(frozen=True)
class Settings:
    """What to measure."""

    workloads: tuple[str, ...] = ("short", "skewed")
    """Of: short, skewed."""
    steps: int = 5
    """Steps per round and side that count."""
    warmup: int = 2
    """Steps before those that do not."""
    rounds: int = 2
    """How often the sides take turns."""
    trl_micro_batch: int = 64
    """Rows in one forward pass of TRL; rlgraph packs by tokens."""
    rlgraph_flags: tuple[str, ...] = ()
    """Further flags of rlgraph.run, to try settings."""


@dataclass
class Measured:
    """What one side did."""

    seconds: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    """Sampled tokens per step."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds per node, where known."""


def measure_trl(
    workload: Workload, model: Path, prompts: Path, settings: Settings, into: Measured
) -> None:
    """One round of TRL."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "measured.json"
        flags = {
            "workload": workload.name,
            "model": model,
            "prompts": prompts,
            "output": output,
            "steps": settings.warmup + settings.steps,
            "micro-batch": settings.trl_micro_batch,
        }
        listed = [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
        _call([str(HERE / "trl_steps.py"), *listed], output.parent)
        got = json.loads(output.read_text())
    into.seconds += got["seconds"][settings.warmup :]
    into.tokens += got["tokens"][settings.warmup :]


def measure_rlgraph(
    workload: Workload, model: Path, prompts: Path, settings: Settings, into: Measured
) -> None:
    """One round of rlgraph, by its command line."""
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            "policy.path": model,
            "policy.trainer.learning-rate": workload.learning_rate,
            "policy.sampler.max-new-tokens": workload.max_new_tokens,
            "data.source": prompts,
            "data.chat-template": False,
            "data.answer-key": None,
            "reward.function": f"{HERE / 'workloads.py'}:reward",
            "prompts-per-step": workload.prompts_per_step,
            "samples-per-prompt": workload.samples_per_prompt,
            "kl-coef": workload.kl_coef,
            "steps": settings.warmup + settings.steps,
            "output": folder,
            "evaluation": "",
        }
        listed = [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
        switches = ["--data.no-shuffle", "--no-save", "--log.no-tensorboard", "--log.samples", "0"]
        command = ["-m", "rlgraph.run", "rlgraph.graphs.grpo", *listed, *switches]
        _call([*command, *settings.rlgraph_flags], Path(folder))
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines][settings.warmup :]
    into.seconds += [step["seconds/total"] for step in steps]
    into.tokens += [step["rollout/response_length"] * workload.samples for step in steps]
    for step in steps:
        for name, value in step.items():
            if name.startswith("seconds/"):
                into.parts.setdefault(name.removeprefix("seconds/"), []).append(value)


def _call(arguments: list[str], folder: Path) -> None:
    """Run Python to its end; what it printed is shown only if it fails."""
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    with (folder / "log").open("w+") as log:
        done = subprocess.run(
            [sys.executable, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            env={**os.environ, "PYTHONPATH": path},
        )
        if done.returncode:
            log.seek(0)
            raise SystemExit(f"{' '.join(arguments)} failed:\n{log.read()[-5000:]}")


def main(settings: Settings) -> None:
    """Measure and print."""
    console, load = Console(), Load()
    table = Table(title=f"GRPO step, median of {settings.rounds} x {settings.steps} steps")
    for title in ("workload", "side", "s/step", "range", "samples/s", "sampled tokens", "ratio"):
        table.add_column(title, justify="left" if title in ("workload", "side") else "right")
    for name in settings.workloads:
        workload, sides = WORKLOADS[name], {"TRL": Measured(), "rlgraph": Measured()}
        with tempfile.TemporaryDirectory() as folder:
            model, prompts = prepare(workload, Path(folder))
            for _ in range(settings.rounds):
                measure_trl(workload, model, prompts, settings, sides["TRL"])
                measure_rlgraph(workload, model, prompts, settings, sides["rlgraph"])
        medians = {side: statistics.median(got.seconds) for side, got in sides.items()}
        for side, got in sides.items():
            table.add_row(
                name,
                side,
                f"{medians[side]:.2f}",
                f"{min(got.seconds):.2f} to {max(got.seconds):.2f}",
                f"{workload.samples / medians[side]:.0f}",
                f"{statistics.mean(got.tokens):.0f}",
                f"{medians['TRL'] / medians[side]:.2f}",
            )
        parts = {part: statistics.median(s) for part, s in sides["rlgraph"].parts.items()}
        listed = sorted(parts.items(), key=lambda entry: -entry[1])
        shown = ", ".join(f"{part} {took:.3f}" for part, took in listed if took >= 0.001)
        console.print(f"{name}: seconds of rlgraph: {shown}", highlight=False)
    console.print(table)
    console.print(load)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
