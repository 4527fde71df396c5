import json
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph import DataError
from rlgraph.data import DataConfig, Stream, build_stream, take_prompts
from rlgraph.data.dataset import PromptDataset
from rlgraph.engines.protocols import PromptStream
from rlgraph.metrics import collect
from rlgraph.records import Prompts

counts = st.lists(st.integers(1, 15), min_size=1, max_size=12)
sizes = st.integers(1, 12)
seeds = st.integers(0, 3)


def dataset(size: int) -> PromptDataset:
    columns = [{"prompt": str(number)} for number in range(size)]
    tokens = [np.arange(1, number % 4 + 2, dtype=np.int32) for number in range(size)]
    return PromptDataset(columns, tokens)


def drawn(prompts: Prompts) -> list[tuple[int, int]]:
    """Which rows these are, with their group ids."""
    rows = [int(columns["prompt"]) for columns in prompts.columns]
    return list(zip(rows, prompts.group.tolist(), strict=True))


def draw(stream: Stream, takes: Sequence[int]) -> list[list[tuple[int, int]]]:
    return [drawn(stream.take(count)) for count in takes]


@given(sizes, seeds, st.booleans(), counts, counts)
def test_a_resumed_stream_goes_on_as_if_nothing_had_happened(
    size: int, seed: int, shuffle: bool, before: list[int], after: list[int]
) -> None:
    whole = draw(Stream(dataset(size), seed=seed, shuffle=shuffle), [*before, *after])
    first = Stream(dataset(size), seed=seed, shuffle=shuffle)
    parts = draw(first, before)
    state = json.loads(json.dumps(first.state_dict()))
    # The seed comes with the state, so a fresh stream may have another.
    second = Stream(dataset(size), seed=seed + 1, shuffle=shuffle)
    second.load_state_dict(state)
    assert second.state_dict() == first.state_dict()
    assert parts + draw(second, after) == whole


@given(sizes, seeds, st.booleans(), counts)
def test_each_epoch_draws_each_row_once(
    size: int, seed: int, shuffle: bool, takes: list[int]
) -> None:
    batches = draw(Stream(dataset(size), seed=seed, shuffle=shuffle), takes)
    rows = [row for batch in batches for row, _ in batch]
    for start in range(0, len(rows), size):
        epoch = Counter(rows[start : start + size])
        assert max(epoch.values()) == 1


@given(sizes, seeds, st.booleans(), counts)
def test_a_take_has_no_row_twice_and_is_short_only_if_the_data_set_is(
    size: int, seed: int, shuffle: bool, takes: list[int]
) -> None:
    stream = Stream(dataset(size), seed=seed, shuffle=shuffle)
    for count, batch in zip(takes, draw(stream, takes), strict=True):
        assert len(batch) == min(count, size)
        assert len({row for row, _ in batch}) == len(batch)


@given(sizes, seeds, counts)
def test_group_ids_count_up_over_the_whole_run(size: int, seed: int, takes: list[int]) -> None:
    batches = draw(Stream(dataset(size), seed=seed), takes)
    groups = [group for batch in batches for _, group in batch]
    assert groups == list(range(len(groups)))


def test_orders_differ_between_epochs_and_seeds() -> None:
    stream = Stream(dataset(50), seed=0)
    orders = [tuple(row for row, _ in drawn(stream.take(50))) for _ in range(2)]
    other = tuple(row for row, _ in drawn(Stream(dataset(50), seed=1).take(50)))
    assert len({*orders, other}) == 3


def test_without_shuffling_rows_come_in_file_order() -> None:
    batches = draw(Stream(dataset(3), shuffle=False), [3, 3, 2, 2])
    rows = [[row for row, _ in batch] for batch in batches]
    # The last take begins with row 2 and goes on in the next epoch.
    assert rows == [[0, 1, 2], [0, 1, 2], [0, 1], [2, 0]]


def test_rows_of_a_bordering_take_come_later_in_the_next_epoch() -> None:
    stream = Stream(dataset(4), shuffle=False)
    rows = [[row for row, _ in batch] for batch in draw(stream, [3, 3, 2, 1])]
    assert rows == [[0, 1, 2], [3, 0, 1], [2, 3], [0]]
    stream = Stream(dataset(3), shuffle=False)
    rows = [[row for row, _ in batch] for batch in draw(stream, [1, 3, 2])]
    # Rows 1 and 2 end the first epoch; of the second, only row 0 is not yet in the take.
    assert rows == [[0], [1, 2, 0], [1, 2]]


def test_prompts_are_padded_on_the_right() -> None:
    prompts = Stream(dataset(3), shuffle=False).take(3)
    assert prompts.tokens.tolist() == [[1, 0, 0], [1, 2, 0], [1, 2, 3]]
    assert prompts.attention_mask.sum(-1).tolist() == [1, 2, 3]
    assert torch.equal(prompts.attention_mask, prompts.tokens != 0)
    assert prompts.tokens.dtype == prompts.group.dtype == torch.long


def test_columns_are_copies() -> None:
    stream = Stream(dataset(1))
    next(iter(stream.take(1).columns))["prompt"] = "spoilt"
    assert next(iter(stream.take(1).columns))["prompt"] == "0"


def test_a_short_take_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(dataset(2))
    stream.take(5)
    stream.take(5)
    assert caplog.text.count("has only 2") == 1


def test_progress_and_losses_are_logged() -> None:
    data = PromptDataset([{"prompt": "0"}] * 4, [np.ones(1, dtype=np.int32)] * 4, bad=3, long=2)
    with collect() as metrics:
        Stream(data).take(3)
    values = {name: metric.value for name, metric in metrics.items()}
    assert values == {"data/epoch": 0.75, "data/bad_rows": 3, "data/long_prompts": 2}


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_cannot_be_taken(count: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Stream(dataset(2)).take(count)


def test_other_data_or_another_way_of_drawing_cannot_be_resumed() -> None:
    state = Stream(dataset(3)).state_dict()
    with pytest.raises(DataError, match="not the one that the checkpoint"):
        Stream(dataset(4)).load_state_dict(state)
    with pytest.raises(DataError, match=r"data\.shuffle=True"):
        Stream(dataset(3), shuffle=False).load_state_dict(state)


def test_streams_are_built_from_a_handle(lines: Callable[..., str], plain: str) -> None:
    prompts = [json.dumps({"prompt": f"{number}", "answer": ""}) for number in range(30)]
    config = DataConfig(lines(*prompts))
    streams = {}
    for name, handle in (("train", config(plain)), ("held out", config.held_out(plain))):
        streams[name] = [
            build_stream(handle.roles[PromptStream].settings, seed) for seed in (0, 0, 1)
        ]
        assert isinstance(streams[name][0], PromptStream)
    one, same, other = (drawn(take_prompts(stream, count=27)) for stream in streams["train"])
    assert one == same != other
    one, same, other = (drawn(take_prompts(stream, count=3)) for stream in streams["held out"])
    assert one == same == other == sorted(one)
