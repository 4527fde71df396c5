"""Every algorithm of ``graphs/`` on the demo task: same model, prompts and number of steps.

Each run is ``python -m rlgraph.run``, one after the other, with the settings that the
graph has by default. One plot comes of them: reward by step, a panel per algorithm, the
mean of the seeds as a line and their least and most as a band.
"""

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal

import matplotlib
import tyro
from load import Load
from rich.console import Console
from rich.progress import track
from rich.table import Table

matplotlib.use("Agg")
from matplotlib import pyplot

ROOT = Path(__file__).parent.parent
TIMEOUT = 3600.0
"""Seconds that one run may take."""
INK, GREY, COLOUR = "#222222", "#9a9a9a", "#1f5fa8"


@dataclass(frozen=True)
class Settings:
    """What to compare, and for how long."""

    steps: int = 20
    """Steps of each run."""
    seeds: int = 3
    """Runs of each algorithm, seeds 0, 1, 2, ..."""
    executor: Literal["local", "ray"] = "local"
    """ray: with vLLM and DeepSpeed; local: plain torch, which starts faster."""
    algorithms: tuple[str, ...] = ()
    """Default: all but the evaluation."""
    runs: Path = Path("runs/algorithms")
    """Where the runs are kept; one that is complete there is not run again."""
    output: Path = ROOT / "docs" / "algorithms.png"
    """The plot."""


Curve = list[float]
"""Mean reward of each step of one run."""


def algorithms() -> list[str]:
    """The graph files, by name."""
    names = sorted(file.stem for file in (ROOT / "graphs").glob("*.py"))
    return [name for name in names if name not in ("__init__", "evaluate")]


def run(algorithm: str, seed: int, settings: Settings) -> Curve:
    """Train once, unless it was done before; its rewards.

    Raises:
        SystemExit: the run failed.
    """
    folder = settings.runs / f"{settings.executor}-{settings.steps}" / f"{algorithm}-{seed}"
    if len(curve := read(folder)) == settings.steps:
        return curve
    folder.mkdir(parents=True, exist_ok=True)
    # A run appends to the metrics that it finds.
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    flags = ["--steps", settings.steps, "--seed", seed, "--executor", settings.executor]
    quiet = ["--no-save", "--log.no-tensorboard", "--evaluation", ""]
    command = [sys.executable, "-m", "rlgraph.run", f"rlgraph.graphs.{algorithm}"]
    with (folder / "output.txt").open("w") as output:
        done = subprocess.run(
            [*command, *map(str, flags), *quiet, "--output", str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    if done.returncode:
        raise SystemExit(f"{algorithm}, seed {seed} failed; see {folder / 'output.txt'}")
    return read(folder)


def read(folder: Path) -> Curve:
    """The rewards of a run; of one that did not take place, none."""
    file = folder / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["reward/mean"] for line in lines]


def plot(curves: dict[str, list[Curve]], settings: Settings) -> None:
    """A panel per algorithm, all at one scale, the other algorithms' means in grey behind."""
    columns = 4
    rows = math.ceil(len(curves) / columns)
    figure, panels = pyplot.subplots(
        rows, columns, figsize=(11, 2.4 * rows + 0.6), sharex=True, sharey=True, squeeze=False
    )
    steps = range(1, settings.steps + 1)
    means = {name: [mean(at) for at in zip(*runs, strict=True)] for name, runs in curves.items()}
    for panel, name in zip(panels.flat, curves, strict=False):
        for other in means.values():
            panel.plot(steps, other, color=GREY, linewidth=0.6, alpha=0.5)
        low, high = ([f(at) for at in zip(*curves[name], strict=True)] for f in (min, max))
        panel.fill_between(steps, low, high, color=COLOUR, alpha=0.25, linewidth=0)
        panel.plot(steps, means[name], color=COLOUR, linewidth=2)
        panel.set_title(name, loc="left", fontsize=11, color=INK)
        panel.annotate(
            f"{means[name][-1]:.2f}",
            (settings.steps, means[name][-1]),
            xytext=(0, 6 if means[name][-1] < 0.88 else -13),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=COLOUR,
        )
        panel.set_ylim(0, 1)
        panel.set_xlim(1, settings.steps)
        panel.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        panel.tick_params(length=0, labelsize=9, colors=INK)
        panel.spines[["top", "right", "left"]].set_visible(False)
    for panel in panels.flat[len(curves) :]:
        panel.set_visible(False)
    # The last panel of each column carries the steps, also above an empty place.
    for column in range(columns):
        last = panels[(len(curves) - 1 - column) // columns, column]
        last.tick_params(labelbottom=True)
        last.set_xlabel("step", fontsize=9, color=INK)
    band = f", least to most of {settings.seeds} seeds as a band" if settings.seeds > 1 else ""
    figure.suptitle(
        f"Mean reward by step on the demo task{band}; grey: the other algorithms",
        fontsize=11,
        color=INK,
        x=0.01,
        ha="left",
    )
    figure.tight_layout()
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(settings.output, dpi=130)


def main(settings: Settings) -> None:
    """Run, plot and print."""
    console, load = Console(), Load()
    names = list(settings.algorithms) or algorithms()
    todo = [(name, seed) for name in names for seed in range(settings.seeds)]
    curves: dict[str, list[Curve]] = {name: [] for name in names}
    for name, seed in track(todo, "running", console=console):
        curves[name].append(run(name, seed, settings))
    plot(curves, settings)
    last = min(5, settings.steps)
    table = Table(title=f"reward after {settings.steps} steps, {settings.seeds} seeds")
    for title in ("algorithm", "first step", f"last {last} steps", "least to most"):
        table.add_column(title, justify="left" if title == "algorithm" else "right")
    ends = {name: [mean(curve[-last:]) for curve in runs] for name, runs in curves.items()}
    for name in sorted(names, key=lambda name: -mean(ends[name])):
        first = mean(curve[0] for curve in curves[name])
        spread = f"{min(ends[name]):.2f} to {max(ends[name]):.2f}"
        table.add_row(name, f"{first:.2f}", f"{mean(ends[name]):.2f}", spread)
    console.print(table)
    console.print(load)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
