import pytest
import torch
from cases import Case, cases, close
from hypothesis import given, settings
from torch import tensor

from rlgraph.metrics import collect
from rlgraph.nodes import value_loss
from rlgraph.records import Sequences


def slow(case: Case, clip: float | None) -> torch.Tensor:
    result = torch.zeros(case.mask.shape, dtype=torch.float64)
    for i, t in case.mask.nonzero().tolist():
        value, old, target = (x[i, t].item() for x in (case.first, case.second, case.third))
        error = (value - target) ** 2
        if clip is not None:
            near = min(max(value, old - clip), old + clip)
            error = max(error, (near - target) ** 2)
        result[i, t] = error / 2
    return result.float()


@pytest.mark.parametrize("clip", [None, 0.3])
@given(case=cases())
def test_equals_plain_python(clip: float | None, case: Case) -> None:
    close(
        value_loss(case.first, case.rollout, case.second, case.third, value_clip=clip),
        slow(case, clip),
    )


@pytest.mark.parametrize("clip", [None, 0.3])
@settings(max_examples=20)
@given(case=cases())
def test_gradient_equals_finite_differences(clip: float | None, case: Case) -> None:
    at = case.first.double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: value_loss(
            x, case.rollout, case.second.double(), case.third.double(), value_clip=clip
        ),
        at,
    )


@given(case=cases())
def test_shifting_values_and_returns_together_changes_nothing(case: Case) -> None:
    plain = value_loss(case.first, case.rollout, case.second, case.third)
    moved = value_loss(case.first + 2, case.rollout, case.second + 2, case.third + 2)
    close(moved, plain)


@given(case=cases())
def test_right_values_cost_nothing(case: Case) -> None:
    assert not value_loss(case.first, case.rollout, case.first, case.first).any()


@given(case=cases())
def test_clipping_never_lowers_the_loss(case: Case) -> None:
    clipped = value_loss(case.first, case.rollout, case.second, case.third)
    plain = value_loss(case.first, case.rollout, case.second, case.third, value_clip=None)
    assert (clipped >= plain).all()


@given(case=cases())
def test_clipped_terms_are_counted(case: Case) -> None:
    with collect() as metrics:
        value_loss(case.first, case.rollout, case.second, case.third, value_clip=None)
    assert "value/clipped" not in metrics
    count = int(case.mask.sum())
    mean = float(((case.first - case.third) ** 2).sum()) / max(count, 1)
    assert metrics["value/squared_error"].value == pytest.approx(mean, rel=1e-4)


def test_by_hand() -> None:
    mask = tensor([[False, True]])
    rows = Sequences(
        tokens=mask.long(), attention_mask=mask | True, action_mask=mask, batch_size=[1]
    )
    # V = 3, V_old = 1, G = 2.5: unclipped (0.5)^2, clipped to 1.2: (1.3)^2 is larger.
    value, old, target = (tensor([[0.0, x]]) for x in (3.0, 1.0, 2.5))
    with collect() as metrics:
        terms = value_loss(value, rows, old, target)
    assert terms[0].tolist() == pytest.approx([0, 1.3**2 / 2])
    assert metrics["value/clipped"].value == 1
