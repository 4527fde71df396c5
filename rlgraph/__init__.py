"""rlgraph: RLHF algorithms as graphs of typed nodes, scheduled onto shared devices."""

from rlgraph import compat as _compat

_compat.prepare(__path__)

from rlgraph.errors import (  # noqa: E402
    DataError,
    EngineError,
    GraphError,
    PlacementError,
    RewardError,
    RlgraphError,
)
from rlgraph.graph import Graph  # noqa: E402
from rlgraph.node import Split, node  # noqa: E402

__all__ = [
    "DataError",
    "EngineError",
    "Graph",
    "GraphError",
    "PlacementError",
    "RewardError",
    "RlgraphError",
    "Split",
    "node",
]
