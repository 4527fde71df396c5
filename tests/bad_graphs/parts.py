"""What the bad graph files share, so that each shows its one mistake."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from rlgraph import node
from rlgraph.models import Stateful
from tests.toys import Counter


@dataclass(frozen=True)
class Config:
    """No settings."""


def counter() -> Stateful:
    return Stateful("counter", Counter, Counter)


@node
def start(counter: Counter) -> Float[Tensor, " batch"]:
    raise AssertionError("these graphs never run")


@node
def follow(
    x: Float[Tensor, " batch"], other: Float[Tensor, " batch"] | None = None
) -> Float[Tensor, " batch"]:
    return x


@node
def spread(x: Float[Tensor, "batch seq"]) -> Float[Tensor, "batch seq"]:
    return x
