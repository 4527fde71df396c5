"""Opens a graph and puts nothing into it."""

from rlgraph import Graph
from tests.bad_graphs.parts import Config


def build(config: Config) -> Graph:
    with Graph("nothing") as graph:
        pass
    return graph
