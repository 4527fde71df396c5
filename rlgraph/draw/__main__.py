"""``python -m rlgraph.draw graphs/grpo.py -o grpo.svg``; with ``--plan``, a step's timeline."""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from rlgraph.draw import draw, draw_plan, mermaid
from rlgraph.errors import RlgraphError

if TYPE_CHECKING:
    from rlgraph.graphfile import GraphFile


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw a graph file's graph; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rlgraph.draw",
        description="Draw the graph of a graph file, or print it as Mermaid.",
        epilog="Further flags are the graph file's own, as for rlgraph.run: they may change the "
        "graph. With --plan, those of a run too: --placement, --devices, --device-memory, "
        "--staleness, --rollout-parts.",
        allow_abbrev=False,
    )
    parser.add_argument("graph", help="graph file (graphs/grpo.py) or dotted module name")
    parser.add_argument(
        "-o", "--output", type=Path, help=".svg, .png or .pdf; without it, Mermaid is printed"
    )
    parser.add_argument(
        "--plan", action="store_true", help="draw the plan of a step as a timeline instead"
    )
    options, flags = parser.parse_known_args(arguments)
    try:
        from rlgraph.graphfile import load_graph_file

        graph_file = load_graph_file(options.graph)
        if options.plan:
            _plan(graph_file, options.output, flags)
            return 0
        _check_flags(graph_file.config_type, flags)
        config = tyro.cli(graph_file.config_type, args=flags, prog=f"{parser.prog} {options.graph}")
        graph = graph_file.build(config)
        if options.output is None:
            print(mermaid(graph), end="")
        else:
            draw(graph, options.output)
    except RlgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _plan(file: "GraphFile", output: Path | None, flags: Sequence[str]) -> None:
    """Draw the plan of a step in the middle of a run: its batch may have been sampled before."""
    if output is None:
        raise RlgraphError("--plan draws a picture: say where with -o plan.svg")
    from rlgraph.job import Job
    from rlgraph.run import parse
    from rlgraph.scheduling.planner import Pace

    config, run = parse(file, flags)
    job = Job.of(file.build(config), None, run)
    overlap = run.staleness > 0
    draw_plan(job.plan(Pace(run.rollout_parts, waiting=overlap, ahead=overlap)), output)


def _check_flags(config_type: type, flags: Sequence[str]) -> None:
    """Say what is missing if flags of a run are given to a graph."""
    given = {flag.split("=")[0] for flag in flags if flag.startswith("--")}
    if not given:
        return
    from rlgraph.job import RunConfig

    own = {field.name for field in dataclasses.fields(config_type)}
    fields = {f.name for f in dataclasses.fields(RunConfig)} - own
    names = {"--" + name.replace("_", "-") for name in fields}
    if wrong := sorted(given & names):
        raise RlgraphError(f"{', '.join(wrong)}: says how a graph is run; add --plan")


if __name__ == "__main__":
    sys.exit(main())
