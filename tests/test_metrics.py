"""Metrics of parts merge to the metric of the whole."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph.metrics import Metric, collect, log, merge_into

NUMBERS = st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=1, max_size=20)


@given(NUMBERS, st.integers(0, 20), st.sampled_from(["mean", "sum", "max", "min"]))
def test_parts_merge_to_the_whole(numbers, cut, kind):
    with collect() as whole:
        log("x", torch.tensor(numbers, dtype=torch.float64), kind=kind)
    merged = {}
    for part in (numbers[:cut], numbers[cut:]):
        with collect() as metrics:
            log("x", torch.tensor(part, dtype=torch.float64), kind=kind)
        merge_into(merged, metrics)
    assert math.isclose(merged["x"].value, whole["x"].value, rel_tol=1e-9, abs_tol=1e-9)


def test_only_what_is_under_the_mask_counts():
    with collect() as metrics:
        log("x", torch.tensor([1.0, float("nan"), 3.0]), torch.tensor([True, False, True]))
    assert metrics["x"] == Metric("mean", 4.0, 2.0)


def test_a_mean_of_nothing_is_zero():
    with collect() as metrics:
        log("x", torch.zeros(0))
    assert metrics["x"].value == 0.0


def test_kinds_do_not_mix():
    with pytest.raises(ValueError, match="a mean metric with a sum metric"):
        Metric("mean", 1, 1).merge(Metric("sum", 1, 1))


def test_logging_outside_a_block_does_nothing():
    log("x", 1.0)
