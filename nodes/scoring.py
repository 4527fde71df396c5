"""Running a model over given rows, without training it."""

from jaxtyping import Float
from torch import Tensor

from rlgraph import Split, node
from rlgraph.engines.protocols import Scorer, ValueModel
from rlgraph.records import Sequences


@node(split=Split.ROWS)
def logprobs(model: Scorer, rollout: Sequences) -> Float[Tensor, "batch seq"]:
    """Log-probability of each action token under ``model``; 0 elsewhere."""
    return model.logprobs(rollout)


@node(split=Split.ROWS)
def values(critic: ValueModel, rollout: Sequences) -> Float[Tensor, "batch seq"]:
    """The critic's estimate of the return before each action token is chosen; 0 elsewhere."""
    return critic.values(rollout)
