import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph.errors import EngineError
from rlgraph.testing import rollouts
from rlgraph.training.aggregation import Normaliser

MODES = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-sum-constant"]


def reference(terms, mask, mode, constant):
    """The definitions, row by row and token by token, in float64."""
    rows = [
        [float(terms[i, t]) for t in range(mask.shape[1]) if mask[i, t]] for i in range(len(mask))
    ]
    rows = [row for row in rows if row]
    if mode == "token-mean":
        return sum(map(sum, rows)) / sum(map(len, rows))
    if mode == "seq-mean-token-mean":
        return sum(sum(row) / len(row) for row in rows) / len(rows)
    if mode == "seq-mean-token-sum":
        return sum(map(sum, rows)) / len(rows)
    return sum(map(sum, rows)) / (len(rows) * constant)


@given(rollouts(), st.sampled_from(MODES), st.integers(1, 3), st.integers(0, 2**31 - 1))
def test_reduction_over_any_micro_batches_is_that_of_the_whole_batch(rollout, mode, parts, seed):
    mask = rollout.action_mask
    if not mask.any():
        return
    terms = torch.randn(mask.shape, generator=torch.Generator().manual_seed(seed))
    spoiled = terms.where(mask, torch.nan)
    normaliser = Normaliser.of(mask, mode, 7)
    pieces = zip(spoiled.tensor_split(parts), mask.tensor_split(parts), strict=True)
    found = sum(float(normaliser.reduce(*piece)) for piece in pieces)
    assert found == pytest.approx(reference(terms, mask, mode, 7), abs=1e-5)


@given(rollouts(), st.sampled_from(MODES))
def test_row_terms_are_averaged_over_rows_that_act(rollout, mode):
    acting = rollout.action_mask.any(-1)
    if not acting.any():
        return
    terms = torch.arange(len(rollout)).float().where(acting, torch.nan)
    found = Normaliser.of(rollout.action_mask, mode, 7).reduce(terms, rollout.action_mask)
    assert float(found) == pytest.approx(float(terms[acting].mean()), abs=1e-5)


def test_by_hand():
    mask = torch.tensor([[False, True, True, True], [False, True, False, False]])
    terms = torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, 10.0, 0.0, 0.0]])
    found = [float(Normaliser.of(mask, mode, 5).reduce(terms, mask)) for mode in MODES]
    assert found == pytest.approx([4.0, 6.0, 8.0, 1.6])


def test_errors():
    mask = torch.tensor([[False, True]])
    with pytest.raises(EngineError, match="seq-sum-constant"):
        Normaliser.of(mask, "seq-sum-constant")
    with pytest.raises(EngineError, match="choose one of token-mean"):
        Normaliser.of(mask, "mean")
    with pytest.raises(EngineError, match="without action tokens"):
        Normaliser.of(torch.zeros(2, 3, dtype=torch.bool), "token-mean")
