"""Calls a node after its graph is closed."""

from rlgraph import Graph
from tests.bad_graphs.parts import Config, counter, follow, start


def build(config: Config) -> Graph:
    with Graph("closed") as graph:
        x = start(counter())
    follow(x)  # the mistake
    return graph
