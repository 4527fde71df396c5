"""``python -m rlgraph.draw graphs/grpo.py -o grpo.svg``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlgraph.draw import draw, mermaid
from rlgraph.errors import RlgraphError


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw a graph file's graph; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rlgraph.draw",
        description="Draw the graph of a graph file, or print it as Mermaid.",
        epilog="Further flags are the graph file's own, as for rlgraph.run: they may change the "
        "graph.",
        allow_abbrev=False,
    )
    parser.add_argument("graph", help="graph file (graphs/grpo.py) or dotted module name")
    parser.add_argument(
        "-o", "--output", type=Path, help=".svg, .png or .pdf; without it, Mermaid is printed"
    )
    options, flags = parser.parse_known_args(arguments)
    try:
        from rlgraph.graphfile import load_graph_file

        graph_file = load_graph_file(options.graph)
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


if __name__ == "__main__":
    sys.exit(main())
