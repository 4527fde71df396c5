"""Reading what a reward function returned."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from rlgraph.errors import RewardError

TAKEN = ("mean", "max", "min", "invalid")
"""Metrics of the scores themselves; a function's own need other names."""

EXPECTED = "expected a list with one number a row, or that and a dict of such lists"


@dataclass
class Scored:
    """Scores and metrics, one number a row; NaN where there is none."""

    scores: list[float] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)


def read_result(result: Any, rows: int, label: str) -> Scored:
    """Check and convert what ``label`` returned for ``rows`` rows.

    Raises:
        RewardError: it is not one number (or None) a row, or a metric is not.
    """
    metrics: Mapping[str, Any] = {}
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping):
        result, metrics = result
    scored = Scored(_numbers(result, rows, f"{label} returned"))
    for name, values in metrics.items():
        if name in TAKEN:
            raise RewardError(f"{label}: a metric cannot be called '{name}'; reward/{name} exists")
        scored.metrics[str(name)] = _numbers(values, rows, f"{label}, metric '{name}': got")
    return scored


def _numbers(values: Any, rows: int, what: str) -> list[float]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
    if isinstance(values, Tensor | np.ndarray):
        if values.ndim != 1:
            raise RewardError(f"{what} an array of shape {list(values.shape)}; {EXPECTED}")
        values = values.tolist()
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise RewardError(f"{what} a {type(values).__name__}; {EXPECTED}")
    numbers = [_number(value, f"{what} for row {row}") for row, value in enumerate(values)]
    if len(numbers) != rows:
        raise RewardError(f"{what} {len(numbers)} numbers for {rows} rows; {EXPECTED}")
    return numbers


def _number(value: Any, what: str) -> float:
    if value is None:
        return math.nan
    # Text has no __float__, so "1" is refused although float("1") would work.
    if hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0:
        return float(value)
    raise RewardError(f"{what} {value!r}, a {type(value).__name__}; {EXPECTED}")
