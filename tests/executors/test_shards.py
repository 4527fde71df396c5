"""Every row goes to exactly one worker, and groups stay together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlgraph import Split
from rlgraph.executors.shards import shares, spread

GROUPS = st.lists(st.integers(0, 5), max_size=30).map(lambda ids: np.array(ids, dtype=np.int64))


@given(GROUPS, st.integers(1, 5), st.sampled_from(list(Split)), st.booleans(), st.booleans())
def test_every_row_goes_to_exactly_one_worker(groups, workers, split, keeps, known):
    lengths = groups + 1 if known else None
    parts = shares(split, workers, len(groups), lengths=lengths, groups=groups, keeps_rows=keeps)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(groups)))
    assert all((np.diff(part) > 0).all() for part in parts), "ascending"
    assert len(parts) <= workers


@given(GROUPS, st.integers(1, 5))
def test_groups_are_never_divided(groups, workers):
    parts = shares(Split.GROUPS, workers, len(groups), groups=groups)
    owners = [set(groups[part].tolist()) for part in parts]
    assert sum(len(owner) for owner in owners) == len(set(groups.tolist()))


@given(st.lists(st.integers(1, 1000), min_size=8, max_size=40), st.integers(2, 4))
def test_tokens_are_dealt_out_evenly(lengths, workers):
    parts = shares(Split.ROWS, workers, len(lengths), lengths=np.array(lengths))
    loads = [sum(lengths[i] for i in part) for part in parts]
    assert max(loads) - min(loads) <= 2 * max(lengths)


@given(st.integers(0, 50), st.integers(2, 5))
def test_a_node_that_changes_rows_gets_neighbours(rows, workers):
    parts = shares(
        Split.ROWS, workers, rows, lengths=np.arange(rows)[::-1].copy(), keeps_rows=False
    )
    assert np.concatenate(parts).tolist() == list(range(rows))


def test_rows_to_look_at_are_spread_over_the_batch():
    assert spread(101, 3).tolist() == [0, 50, 100]
    assert spread(2, 5).tolist() == [0, 1]
    assert spread(0, 5).tolist() == []
