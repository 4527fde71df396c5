import math

import pytest
import torch
from cases import Case, cases, close
from hypothesis import given
from torch import Tensor, tensor

from rlgraph.metrics import collect
from rlgraph.nodes import importance_weights


def slow(case: Case, level: str, mode: str, low: float, high: float) -> Tensor:
    result = torch.zeros(case.mask.shape, dtype=torch.float64)
    for i in range(len(case.mask)):
        actions = case.mask[i].nonzero().flatten().tolist()
        gaps = {t: case.first[i, t].item() - case.second[i, t].item() for t in actions}
        for t in actions:
            gap = {
                "token": gaps[t],
                "sequence": math.fsum(gaps.values()),
                "geometric": math.fsum(gaps.values()) / len(gaps),
            }[level]
            weight = math.exp(max(min(gap, 20.0), -20.0))
            if mode == "truncate":
                result[i, t] = min(weight, high)
            elif low <= weight <= high:
                result[i, t] = weight
    return result.float()


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize(("mode", "low"), [("truncate", 0.0), ("mask", 0.5)])
@given(case=cases())
def test_equals_plain_python(level: str, mode: str, low: float, case: Case) -> None:
    actual = importance_weights(
        case.first, case.second, case.mask, level=level, mode=mode, low=low, high=2.0
    )
    close(actual, slow(case, level, mode, low, 2.0))


@given(case=cases())
def test_equal_policies_need_no_correction(case: Case) -> None:
    for level in ("token", "sequence", "geometric"):
        weights = importance_weights(case.first, case.first, case.mask, level=level)
        assert weights.equal(case.mask.float())


def test_weights_carry_no_gradient() -> None:
    trainer = tensor([[0.0, -1.0]], requires_grad=True)
    weights = importance_weights(trainer, tensor([[0.0, -2.0]]), tensor([[False, True]]))
    assert not weights.requires_grad
    assert weights.tolist() == [[0, 2]]


def test_the_tail_is_logged_beside_the_mean() -> None:
    gap = tensor([[0.0, 0.0, 0.0, 0.0, 3.0]])
    mask = tensor([[False, True, True, True, True]])
    with collect() as metrics:
        importance_weights(gap, torch.zeros(1, 5), mask, high=2.0)
    assert metrics["mismatch/mean"].value == 0.75
    assert metrics["mismatch/max"].value == 3
    assert metrics["mismatch/over_0.1"].value == metrics["mismatch/over_1"].value == 0.25
    assert metrics["mismatch/kl"].value == pytest.approx((math.exp(3) - 1 - 3) / 4)
    assert metrics["correction/out_of_range"].value == 0.25
    assert metrics["correction/weight"].value == pytest.approx((3 + 2) / 4)


def test_thresholds_must_make_sense() -> None:
    nothing, mask = torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match="mode='truncate' only caps"):
        importance_weights(nothing, nothing, mask, low=0.5)
    with pytest.raises(ValueError, match="got low 3 and high 2"):
        importance_weights(nothing, nothing, mask, mode="mask", low=3.0, high=2.0)
