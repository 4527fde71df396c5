"""``python -m rlgraph.run GRAPH [settings]``: run a graph file."""

import dataclasses
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape

from rlgraph.errors import RlgraphError
from rlgraph.graphfile import GraphFile, load_graph_file
from rlgraph.job import Job, RunConfig, start
from rlgraph.loop import train
from rlgraph.runlog import RunLog
from rlgraph.scheduling.planner import Pace
from rlgraph.scheduling.table import plan_table
from rlgraph.settings import RunContext

USAGE = """\
usage: python -m rlgraph.run GRAPH [settings]

GRAPH is a graph file (graphs/grpo.py, my_algo.py) or a module (rlgraph.graphs.grpo).
`python -m rlgraph.run GRAPH --help` lists its settings.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a graph file; the process's exit code.

    0: done. 1: the run failed. 2: it was asked for wrongly, nothing was started.
    130: interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    try:
        file = load_graph_file(arguments[0])
        config, run = parse(file, arguments[1:])
        job = _job(file, config, run)
        if run.plan:
            pace = Pace(run.rollout_parts, ahead=run.staleness > 0)
            Console().print(plan_table(job.plan(pace)))
            return 0
    except RlgraphError as error:
        errors.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")
        return 2
    try:
        execute(file, config, run, job)
        return 0
    except RlgraphError as error:
        errors.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")
        return 1
    except KeyboardInterrupt:
        errors.print("interrupted")
        return 130
    except Exception:
        errors.print(escape(traceback.format_exc()))
        return 1


def parse(file: GraphFile, flags: Sequence[str]) -> tuple[Any, RunConfig]:
    """The graph's settings and the run's, from command-line flags.

    Exits with code 2 and a message if a flag is unknown or has a bad value.
    """
    both = dataclasses.make_dataclass(
        "Settings",
        [
            ("graph", Annotated[file.config_type, tyro.conf.arg(name="")]),
            ("run", Annotated[RunConfig, tyro.conf.arg(name="")]),
        ],
    )
    parsed: Any = tyro.cli(
        both,
        prog=f"python -m rlgraph.run {file.name}",
        description=file.summary,
        args=list(flags),
    )
    return parsed.graph, parsed.run


def _job(file: GraphFile, config: Any, run: RunConfig) -> Job:
    evaluation = None
    if run.evaluation:
        evaluator = load_graph_file(run.evaluation)
        # A graph that has no held-out prompts brings settings of another kind.
        if isinstance(config, evaluator.config_type):
            evaluation = evaluator.build(config)
    return Job.of(file.build(config), evaluation, run)


def execute(file: GraphFile, config: Any, run: RunConfig, job: Job) -> None:
    """Start the engines and train, in an output folder of the run's own.

    Raises:
        RlgraphError: the run failed.
    """
    output = run.output or Path("runs") / f"{file.name}-{datetime.now():%Y%m%d-%H%M%S}"
    scratch = output / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    settings = {"graph": file.where, **_plain(config), "run": _plain(run)}
    (output / "config.json").write_text(json.dumps(settings, indent=2, default=str) + "\n")
    context = RunContext(seed=run.seed, steps=run.steps, scratch=scratch.absolute())
    title = file.summary.splitlines()[0] if file.summary else file.name
    with RunLog(output, run.log, run.steps, title, settings=settings) as log:
        log.event("starting", f"{len(job.residents)} residents on {run.executor}")
        executor = start(job, run, context)
        # Only now, since Ray puts a handler of its own that ends without a clean-up.
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            train(job, run, executor, log)
        finally:
            executor.close()


def _plain(config: Any) -> dict[str, Any]:
    return dataclasses.asdict(config)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Engines leave threads behind that would keep the process alive.
    os._exit(code)
