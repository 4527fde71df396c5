"""Wires a number a row where one a token is wanted."""

from rlgraph import Graph
from tests.bad_graphs.parts import Config, counter, spread, start


def build(config: Config) -> Graph:
    with Graph("mistyped") as graph:
        spread(start(counter()))  # the mistake
    return graph
