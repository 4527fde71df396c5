"""The errors that a user of rlgraph is meant to read."""


class RlgraphError(Exception):
    """What went wrong, where, and what to do about it; shown without a traceback."""


class GraphError(RlgraphError):
    """A graph is put together wrongly. Raised while it is built: nothing has started."""


class PlacementError(RlgraphError):
    """The residents do not fit the devices. Raised before anything starts."""


class DataError(RlgraphError):
    """A data set cannot be used as it was described."""


class RewardError(RlgraphError):
    """A reward function cannot be used, or failed on every row."""


class EngineError(RlgraphError):
    """An engine refused, failed, or was used out of order."""


class AnotherRound(Exception):
    """Raised by a node that has not enough yet: the step's graph is run once more.

    The nodes that depend on it are left out of this round. See
    :func:`rlgraph.nodes.collect_groups` for its use.
    """
