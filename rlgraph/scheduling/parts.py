"""Which nodes may start on some rows before all are there."""

from collections.abc import Sequence

from rlgraph.graph import Node
from rlgraph.node import Split
from rlgraph.rows import is_batched
from rlgraph.scheduling.placement import Placement


def divisible(nodes: Sequence[Node], placement: Placement) -> set[str]:
    """Samplings, and the row-wise nodes that can go on beside them with what they gave.

    A node that shares the sampler's devices would have to take turns with it, part by
    part, and gains nothing; it waits for all rows, like a node that sees whole batches.
    """
    homes: dict[str, str | None] = {}
    """A sampling's device set."""
    origin: dict[str, str] = {}
    """A row-wise node to the sampling that its rows come from."""
    for node in nodes:
        if node.function.split is not Split.ROWS:
            continue
        inputs = [value.node.name for value in node.inputs.values() if is_batched(value.type)]
        sources = {name if name in homes else origin.get(name) for name in inputs}
        home = placement.homes.get(node.resident.name) if node.resident else None
        if sources == {None} and node.resident and node.resident.kind == "sampler":
            homes[node.name] = home
        elif len(sources) == 1 and None not in sources:
            (source,) = sources
            if source is not None and (home is None or home != homes[source]):
                origin[node.name] = source
    return set(origin) | set(origin.values())
