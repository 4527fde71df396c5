"""What the nodes gave: of this step's batch, of the next one's, and of parts of both."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rlgraph.scheduling.plan import WHOLE, Plan, Run
from rlgraph.types import EdgeType

T = TypeVar("T")


class Values(Generic[T]):
    """Results by node, whatever an executor holds of them.

    What was sampled ahead waits here, apart for each graph, until the next plan of
    that graph begins.
    """

    def __init__(self, join: Callable[[Sequence[T], EdgeType], T]) -> None:
        self._join = join
        self._now: dict[str, T] = {}
        self._ahead: dict[int, dict[str, T]] = {}
        self._next: dict[str, T] = {}
        self._parts: dict[tuple[str, bool], dict[int, T | None]] = {}

    def begin(self, plan: Plan) -> None:
        """The batch that was sampled ahead is now this step's."""
        self._now |= self._ahead.pop(id(plan.graph), {})
        self._next = {}
        self._parts = {}

    def end(self, plan: Plan) -> None:
        """Keep what was sampled ahead."""
        if self._next:
            self._ahead[id(plan.graph)] = self._next

    def __getitem__(self, node: str) -> T:
        return self._now[node]

    def whole(self, node: str, run: Run) -> T:
        """All rows that ``node`` gave, of the batch that ``run`` works on."""
        return self._next[node] if run.ahead else self._now[node]

    def is_divided(self, node: str, run: Run) -> bool:
        """Does ``node`` give its rows in the parts that ``run`` takes them in?"""
        return run.part != WHOLE and (node, run.ahead) in self._parts

    def part(self, node: str, run: Run) -> T | None:
        """The rows that belong to the part that ``run`` works on; None if there are none."""
        return self._parts[node, run.ahead][run.part.number]

    def put(self, run: Run, value: T | None, kind: EdgeType) -> None:
        """Keep a result; a part without rows is None."""
        if run.part.of == 1:
            assert value is not None
            self._store(run, value)
            return
        parts = self._parts.setdefault((run.node, run.ahead), {})
        parts[run.part.number] = value
        if len(parts) == run.part.of:
            self._store(
                run, self._join([p for _, p in sorted(parts.items()) if p is not None], kind)
            )

    def _store(self, run: Run, value: T) -> None:
        (self._next if run.ahead else self._now)[run.node] = value
