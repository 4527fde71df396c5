import math
import statistics

import pytest
import torch
from cases import Case, cases, floats
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from rlgraph.nodes import whiten


@given(cases(), st.booleans(), st.booleans())
def test_equals_plain_python(case: Case, unbiased: bool, shift_mean: bool) -> None:
    actual = whiten(case.first, case.mask, unbiased=unbiased, shift_mean=shift_mean)
    chosen = [float(x) for x in case.first[case.mask]]
    expected = []
    if chosen:
        mean = math.fsum(chosen) / len(chosen)
        many = len(chosen) > 1
        spread = statistics.variance if unbiased else statistics.pvariance
        scale = 1 / math.sqrt((spread(chosen) if many else 0.0) + 1e-8)
        expected = [(x - mean) * scale + (0.0 if shift_mean else mean) for x in chosen]
    assert actual[case.mask].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@given(cases(), floats(-10, 10), floats(0.1, 10))
def test_shift_and_scale_change_nothing(case: Case, shift: float, scale: float) -> None:
    moved = (case.first * scale + shift).where(case.mask, 0.0)
    torch.testing.assert_close(
        whiten(moved, case.mask), whiten(case.first, case.mask), rtol=1e-3, atol=1e-3
    )


def test_by_hand() -> None:
    # Values 1, 2, 6: mean 3, squares 4 + 1 + 9 = 14, variance 7 (or 14/3 biased).
    values, mask = tensor([[1.0, 99.0], [2.0, 6.0]]), tensor([[True, False], [True, True]])
    root = math.sqrt(7)
    unbiased = whiten(values, mask)
    assert unbiased[mask].tolist() == pytest.approx([-2 / root, -1 / root, 3 / root])
    assert unbiased[0, 1] == 0
    root = math.sqrt(14 / 3)
    biased = whiten(values, mask, unbiased=False)
    assert biased[mask].tolist() == pytest.approx([-2 / root, -1 / root, 3 / root])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_without_spread_values_are_only_centred(count: int) -> None:
    mask = torch.arange(4) < count
    values = torch.full((1, 4), 0.1)
    assert whiten(values, mask[None]).tolist() == [[0.0] * 4]
    kept = whiten(values, mask[None], shift_mean=False)
    assert kept[0].tolist() == pytest.approx([0.1] * count + [0.0] * (4 - count))
