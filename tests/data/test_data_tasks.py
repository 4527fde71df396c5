import pytest

from rlgraph import DataError
from rlgraph.builtin.heldout import is_held_out
from rlgraph.data import DataConfig, StreamSettings
from rlgraph.data.dataset import PromptDataset
from rlgraph.data.tasks import read_task


def test_questions_carry_what_their_scorer_needs() -> None:
    options = DataConfig().options
    first = next(read_task("basic_arithmetic", 5, options)).columns
    assert first is not None
    assert first["prompt"] == first["question"] == "Calculate 5 + 33."
    assert (first["answer"], first["task"], first["task_options"]) == (
        *("38", "basic_arithmetic"),
        options,
    )
    assert "metadata" in first


def test_a_data_set_is_the_same_each_time() -> None:
    assert list(read_task("chain_sum", 20, {})) == list(read_task("chain_sum", 20, {}))
    assert list(read_task("chain_sum", 20, {})) != list(read_task("chain_sum", 20, {"seed": 7}))


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("chain_sums", {}, "no task 'chain_sums'; it has chain_sum"),
        ("chain_sum", {"terms": 2}, "no option terms.*max_terms"),
        ("chain_sum", {"size": 2}, "no option size"),
        ("chain_sum", {"min_terms": 9}, "min_terms=9"),
        ("chain_sum", {"min_terms": "two"}, "min_terms=two"),
    ],
)
def test_unusable_tasks(task: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_task(task, 5, options))


def test_held_out_questions_are_never_trained_on(plain: str) -> None:
    config = DataConfig(size=400, eval_size=10)
    train = PromptDataset.load(StreamSettings(config, plain))
    held_out = PromptDataset.load(StreamSettings(config, plain, held_out=True))
    assert not any(is_held_out(row["question"]) for row in train.columns)
    assert all(is_held_out(row["question"]) for row in held_out.columns)
    questions = {row["question"] for row in held_out.columns}
    assert len(questions) == len(held_out) == 10
    assert len(train) > 300


def test_only_the_default_task_has_options_of_its_own() -> None:
    other = DataConfig(source="reasoning_gym:chain_sum")
    assert other.options == {}
    assert DataConfig(task_options=()).options == {}
    assert DataConfig(task_options=("max_terms=3",)).options == {"max_terms": 3}
