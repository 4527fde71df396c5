"""Forgets to return its graph."""

from rlgraph import Graph
from tests.bad_graphs.parts import Config, counter, start


def build(config: Config) -> Graph:
    with Graph("lost"):
        start(counter())
