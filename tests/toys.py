"""Small nodes and states that the tests of the core share."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rlgraph import Graph, Split, node
from rlgraph.models import Stateful
from rlgraph.records import Prompts


class Counter:
    """A state: how often it was asked."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> int:
        self.count += 1
        return self.count

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def prompts_of(lengths: list[int], group: list[int] | None = None) -> Prompts:
    """Prompts with these lengths; row ``i`` is filled with ``i + 1``."""
    width = max(lengths, default=0)
    mask = torch.arange(width) < torch.tensor(lengths, dtype=torch.long)[:, None]
    tokens = mask * torch.arange(1, len(lengths) + 1)[:, None]
    return Prompts(
        tokens=tokens,
        attention_mask=mask,
        group=torch.arange(len(lengths))
        if group is None
        else torch.tensor(group, dtype=torch.long),
        columns=[{"row": row} for row in range(len(lengths))],
        batch_size=[len(lengths)],
    )


@node
def source(counter: Counter, *, lengths: list[int]) -> Prompts:
    prompts = prompts_of(lengths)
    return prompts.replace(tokens=prompts.tokens * counter.next())


@node(split=Split.ROWS)
def double(prompts: Prompts) -> Float[Tensor, "batch seq"]:
    return prompts.tokens * 2.0


@node(split=Split.GROUPS)
def group_total(
    x: Float[Tensor, "batch seq"], group: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    sums = x.sum(-1)
    return torch.stack([sums[group == own].sum() for own in group]) if len(group) else sums


@node
def whole_mean(x: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
    return x.mean()


@node(split=Split.ROWS)
def shift(x: Float[Tensor, " batch"], by: Float[Tensor, ""]) -> Float[Tensor, " batch"]:
    return x - by


@node(split=Split.ROWS)
def fail(x: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    raise ZeroDivisionError("on purpose")


def toy_graph(lengths: list[int]) -> Graph:
    with Graph("toy") as graph:
        prompts = source(Stateful("counter", Counter, Counter), lengths=lengths)
        totals = group_total(double(prompts), prompts.group)
        shift(totals, whole_mean(totals))
    return graph
