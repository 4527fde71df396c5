"""Metrics that merge exactly: over micro-batches, ranks and nodes.

A node calls :func:`log`; whoever runs the node collects. Outside a
:func:`collect` block, logging is free of effect, so nodes stay pure to call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["mean", "sum", "max", "min"]


@dataclass
class Metric:
    """One number in the making: ``total`` of ``count`` observations, or an extreme."""

    kind: Kind
    total: float
    count: float

    def merge(self, other: "Metric") -> "Metric":
        """The metric of both sets of observations together."""
        if self.kind != other.kind:
            raise ValueError(f"cannot merge a {self.kind} metric with a {other.kind} metric")
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        pick = {"max": max, "min": min}.get(self.kind)
        total = pick(self.total, other.total) if pick else self.total + other.total
        return Metric(self.kind, total, self.count + other.count)

    @property
    def value(self) -> float:
        """The number to show; a mean of nothing is 0."""
        if self.kind == "mean":
            return self.total / self.count if self.count else 0.0
        return self.total


Metrics = dict[str, Metric]
_collecting: ContextVar[Metrics | None] = ContextVar("collecting", default=None)


def log(name: str, values: Tensor | float, mask: Tensor | None = None, kind: Kind = "mean") -> None:
    """Record the ``kind`` of ``values`` (those under ``mask``, if given) as ``name``.

    Names are ``area/what``: ``reward/mean``, ``policy/clip_fraction``.
    """
    metrics = _collecting.get()
    if metrics is None:
        return
    numbers = torch.as_tensor(values).detach().double()
    if mask is not None:
        numbers = numbers[mask.expand_as(numbers).bool()]
    count = float(numbers.numel())
    if not count:
        total = 0.0
    elif kind in ("mean", "sum"):
        total = float(numbers.sum())
    else:
        total = float(numbers.max() if kind == "max" else numbers.min())
    merge_into(metrics, {name: Metric(kind, total, count)})


def merge_into(metrics: Metrics, more: Metrics) -> None:
    """Add ``more`` to ``metrics``, in place."""
    for name, metric in more.items():
        metrics[name] = metrics[name].merge(metric) if name in metrics else metric


@contextmanager
def collect() -> Iterator[Metrics]:
    """Gather everything that is logged inside the block."""
    metrics: Metrics = {}
    token = _collecting.set(metrics)
    try:
        yield metrics
    finally:
        _collecting.reset(token)
