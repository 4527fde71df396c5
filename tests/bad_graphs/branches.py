"""Decides by a number that is not known yet."""

from rlgraph import Graph
from tests.bad_graphs.parts import Config, counter, follow, start


def build(config: Config) -> Graph:
    with Graph("branching") as graph:
        x = start(counter())
        if x:  # the mistake
            follow(x)
    return graph
