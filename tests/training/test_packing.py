import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph.training.packing import EMPTY, pack, plan, row_lengths, share

lengths_of_rows = st.lists(st.integers(1, 60), max_size=40)


@given(lengths_of_rows, st.integers(1, 200))
def test_every_row_comes_once_within_the_budget_and_its_own_width(lengths, budget):
    batches = pack(range(len(lengths)), lengths, budget)
    assert sorted(row for batch in batches for row in batch.rows) == list(range(len(lengths)))
    for batch in batches:
        assert batch.width == max(lengths[row] for row in batch.rows)
        assert batch.padded_tokens <= budget or len(batch.rows) == 1


@given(lengths_of_rows, st.integers(1, 5))
def test_shares_are_balanced_to_within_one_row(lengths, ranks):
    shares = share(range(len(lengths)), lengths, ranks)
    assert sorted(row for part in shares for row in part) == list(range(len(lengths)))
    loads = [sum(lengths[row] for row in part) for part in shares]
    assert max(loads) - min(loads) <= max(lengths, default=0)


@given(lengths_of_rows, st.integers(1, 5), st.integers(1, 100))
def test_all_ranks_run_equally_many_passes(lengths, ranks, budget):
    planned = plan(range(len(lengths)), lengths, budget, ranks)
    assert len({len(batches) for batches in planned}) == 1
    rows = [row for batches in planned for batch in batches for row in batch.rows]
    assert sorted(rows) == list(range(len(lengths)))


def test_more_ranks_than_rows_leaves_empty_passes():
    planned = plan([7], [0] * 7 + [3], 100, 3)
    assert [batches[0].rows for batches in planned] == [(7,), (), ()]
    assert planned[1] == [EMPTY]


def test_similar_lengths_go_together():
    assert [batch.rows for batch in pack(range(4), [10, 2, 9, 3], 20)] == [(0, 2), (3, 1)]


def test_a_long_row_does_not_pad_a_full_batch_of_short_ones():
    lengths = [100] * 50 + [10] * 500
    assert sum(batch.padded_tokens for batch in pack(range(550), lengths, 10**6)) == 10_000


def test_lengths_come_from_the_mask():
    assert row_lengths(torch.tensor([[True, True, False], [True, False, False]])) == [2, 1]
