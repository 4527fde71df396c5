"""The graph's side of the data: the node that draws prompts, and its engine."""

from rlgraph.data.dataset import PromptDataset
from rlgraph.data.settings import StreamSettings
from rlgraph.data.stream import Stream
from rlgraph.engines.protocols import PromptStream
from rlgraph.node import node
from rlgraph.records import Prompts


@node
def take_prompts(prompts: PromptStream, *, count: int) -> Prompts:
    """The next ``count`` prompts, ``[count seq]``; fewer only if the data set is smaller."""
    return prompts.take(count)


def build_stream(settings: StreamSettings, seed: int) -> Stream:
    """Load the data set that ``settings`` name.

    Held-out prompts come in the same order each time.

    Raises:
        DataError: it cannot be used as described.
    """
    shuffle = settings.data.shuffle and not settings.held_out
    return Stream(PromptDataset.load(settings), seed=seed, shuffle=shuffle)
