"""Annotates with a name that does not exist."""

from __future__ import annotations

from rlgraph import Graph


def build(config: Confg) -> Graph:  # the mistake
    return Graph("never")
