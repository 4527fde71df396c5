"""Closes a cycle by rewiring."""

from rlgraph import Graph
from tests.bad_graphs.parts import Config, counter, follow, start


def build(config: Config) -> Graph:
    with Graph("cyclic") as graph:
        first = follow(start(counter()))  # the mistake
        second = follow(first)
        graph.rewire("follow", "other", second)
    return graph
