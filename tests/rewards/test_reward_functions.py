import asyncio
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rollouts import rollout_of

from rlgraph import RewardError
from rlgraph.engines.protocols import Rewarder
from rlgraph.metrics import collect, log
from rlgraph.rewards.functions import FunctionRewarder

COLUMNS = [
    {"prompt": "1+1", "answer": "2", "level": 1},
    {"prompt": "2+2", "answer": "4", "level": 2},
]


def rewarder(function: Callable[..., Any], timeout: float = 30.0) -> FunctionRewarder:
    return FunctionRewarder(function, "mine.py:reward", timeout)


def scores(function: Callable[..., Any], responses: list[str] | None = None) -> list[float | None]:
    """What a rollout's rows get; None where the row is invalid."""
    responses = ["2", "3"] if responses is None else responses
    columns = [COLUMNS[row % 2] for row in range(len(responses))]
    rewards = rewarder(function).score(rollout_of(responses, columns))
    assert rewards.scores.dtype == torch.float32
    assert not rewards.scores[~rewards.valid].any()
    pairs = zip(rewards.scores.tolist(), rewards.valid.tolist(), strict=True)
    return [score if valid else None for score, valid in pairs]


def equal(prompts: list[str], responses: list[str], answer: list[str]) -> list[float]:
    return [float(r == a) for r, a in zip(responses, answer, strict=True)]


def test_a_function_gets_the_columns_that_it_names() -> None:
    assert isinstance(rewarder(equal), Rewarder)
    assert scores(equal) == [1.0, 0.0]


def test_prompts_and_responses_may_have_other_names() -> None:
    def reward(questions: list[str], completions: list[str], *, level: list[int]) -> list[int]:
        assert (questions, completions) == (["1+1", "2+2"], ["2", "3"])
        return level

    assert scores(reward) == [1.0, 2.0]


def test_a_function_can_ask_for_all_columns() -> None:
    seen = {}

    def reward(prompts: list[str], responses: list[str], **columns: list[Any]) -> list[float]:
        seen.update(columns)
        return [0.0, 0.0]

    scores(reward)
    assert seen == {"answer": ["2", "4"], "level": [1, 2]}


def test_a_column_may_share_a_name_with_the_first_parameters() -> None:
    def reward(prompt: list[str], response: list[str], **columns: list[Any]) -> list[float]:
        assert list(columns) == ["level"]
        return [1.0]

    row = {"prompt": "a", "response": "the data set's own", "level": 1}
    assert rewarder(reward).score(rollout_of(["b"], [row])).scores.tolist() == [1.0]


def test_columns_that_are_not_there() -> None:
    def optional(prompts: Any, responses: Any, tests: Any = None) -> list[float]:
        assert tests is None
        return [1.0, 1.0]

    def needed(prompts: Any, responses: Any, tests: Any) -> list[float]:
        return [1.0, 1.0]

    assert scores(optional) == [1.0, 1.0]
    with pytest.raises(RewardError, match=r"column 'tests'.*it has prompt, answer, level"):
        scores(needed)


def test_a_column_that_only_some_rows_have_is_none_elsewhere() -> None:
    def reward(prompts: Any, responses: Any, hint: list[str | None]) -> list[float]:
        assert hint == [None, "h"]
        return [1.0, 1.0]

    rewarder(reward).score(rollout_of(["a", "b"], [{"prompt": "p"}, {"prompt": "q", "hint": "h"}]))


@pytest.mark.parametrize("function", [lambda: [], lambda responses: [], lambda **columns: []])
def test_a_function_must_take_prompts_and_responses(function: Callable[..., Any]) -> None:
    with pytest.raises(RewardError, match=r"mine.py:reward must take the prompts"):
        rewarder(function)


@pytest.mark.parametrize(
    "result",
    [
        [1, 0.5],
        (1, 0.5),
        [True, 0.5],
        np.array([1, 0.5]),
        torch.tensor([1, 0.5], requires_grad=True),
        torch.tensor([1, 0.5], dtype=torch.bfloat16),
        [torch.tensor(1), np.float64(0.5)],
        ([1, 0.5], {}),
        iter([1, 0.5]),
    ],
)
def test_numbers_come_in_many_forms(result: Any) -> None:
    assert scores(lambda prompts, responses: result) == [1.0, 0.5]


def test_async_functions_are_awaited() -> None:
    async def reward(prompts: list[str], responses: list[str]) -> list[float]:
        async def judge(response: str) -> float:
            await asyncio.sleep(0)
            return float(response)

        return await asyncio.gather(*map(judge, responses))

    assert scores(reward) == [2.0, 3.0]


@pytest.mark.parametrize("nothing", [None, math.nan, math.inf, -math.inf, torch.tensor(math.nan)])
def test_a_row_without_a_score_is_invalid(nothing: Any) -> None:
    assert scores(lambda prompts, responses: [nothing, 0.5]) == [None, 0.5]
    assert scores(lambda prompts, responses: [nothing, nothing]) == [None, None]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([1.0], "returned 1 numbers for 2 rows"),
        ([1.0, 2.0, 3.0], "returned 3 numbers for 2 rows"),
        ([], "returned 0 numbers for 2 rows"),
        (None, "returned a NoneType"),
        (0.5, "returned a float"),
        ("12", "returned a str"),
        ({"a": 1, "b": 2}, "returned a dict"),
        (torch.zeros(2, 1), r"array of shape \[2, 1\]"),
        (torch.tensor(1.0), r"array of shape \[\]"),
        ([1.0, "2"], "for row 1 '2', a str"),
        ([1.0, [2.0]], r"for row 1 \[2.0\], a list"),
        (([1.0, 2.0], {"length": [1]}), "metric 'length': got 1 numbers for 2 rows"),
        (([1.0, 2.0], {"length": 3.0}), "metric 'length': got a float"),
        (([1.0, 2.0], {"mean": [1, 2]}), "cannot be called 'mean'"),
    ],
)
def test_results_that_cannot_be_used(result: Any, message: str) -> None:
    with pytest.raises(RewardError, match=f"mine.py:reward.*{message}"):
        scores(lambda prompts, responses: result)


def test_rows_that_the_function_fails_on_are_invalid(caplog: pytest.LogCaptureFixture) -> None:
    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        return [float(response) for response in responses]

    assert scores(reward, ["1", "one", "3", "three"]) == [1.0, None, 3.0, None]
    assert "failed on 2 of 4 rows" in caplog.text
    assert "first on row 1 (prompt '2+2')" in caplog.text
    assert "could not convert string to float: 'one'" in caplog.text


@given(st.lists(st.sampled_from(["1", "2.5", "", "x"]), min_size=1, max_size=6))
def test_failing_alone_is_what_makes_a_row_invalid(responses: list[str]) -> None:
    def reward(prompts: list[str], texts: list[str]) -> list[float]:
        return [float(text) for text in texts]

    def alone(text: str) -> float | None:
        try:
            return float(text)
        except ValueError:
            return None

    expected = [alone(text) for text in responses]
    if any(score is not None for score in expected):
        assert scores(reward, responses) == expected
    else:
        with pytest.raises(RewardError, match="failed on each of"):
            scores(reward, responses)


def test_a_failure_of_the_batch_alone_costs_no_row(caplog: pytest.LogCaptureFixture) -> None:
    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        if len(responses) > 1:
            raise MemoryError("too many at once")
        return [1.0]

    assert scores(reward) == [1.0, 1.0]
    assert "not on any of them alone" in caplog.text and "too many at once" in caplog.text


@pytest.mark.parametrize("responses", [["a"], ["a", "b"]])
def test_failing_on_every_row_stops_the_run(responses: list[str]) -> None:
    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        raise KeyError("no such thing")

    with pytest.raises(RewardError, match=f"each of {len(responses)} rows") as caught:
        scores(reward, responses)
    assert "Traceback" in str(caught.value) and "no such thing" in str(caught.value)


@pytest.mark.parametrize("error", [SystemExit(3), TimeoutError("slow judge"), StopIteration()])
def test_no_way_of_failing_escapes(error: BaseException) -> None:
    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        if "bad" in responses:
            raise error
        return [1.0] * len(responses)

    async def later(prompts: list[str], responses: list[str]) -> list[float]:
        return reward(prompts, responses)

    assert scores(reward, ["good", "bad"]) == [1.0, None]
    assert scores(later, ["good", "bad"]) == [1.0, None]


def test_no_rows_and_empty_responses() -> None:
    def length(prompts: list[str], responses: list[str]) -> list[float]:
        assert responses
        return [float(len(response)) for response in responses]

    assert scores(length, []) == []
    assert scores(length, ["", "abc"]) == [0.0, 3.0]


def test_metrics_are_averaged_over_valid_rows() -> None:
    def reward(prompts: Any, responses: list[str]) -> tuple[list[float | None], dict[str, Any]]:
        log("mine/calls", 1.0, kind="sum")
        return [1.0, None, 3.0], {"length": [1, 10, 3], "judge": [None, 5, 7], "none": [None] * 3}

    with collect() as metrics:
        scores(reward, ["a", "b", "c"])
    values = {name: (metric.value, metric.count) for name, metric in metrics.items()}
    assert values == {
        "reward/length": (2.0, 2),
        "reward/judge": (7.0, 1),
        "reward/none": (0.0, 0),
        "mine/calls": (1.0, 1),
    }


def test_metrics_survive_rows_that_fail() -> None:
    def reward(prompts: Any, responses: list[str]) -> tuple[list[float], dict[str, list[float]]]:
        numbers = [float(response) for response in responses]
        return numbers, ({"odd": numbers} if numbers[0] % 2 else {"even": numbers})

    with collect() as metrics:
        scores(reward, ["1", "x", "4", "3"])
    values = {name: (metric.value, metric.count) for name, metric in metrics.items()}
    assert values == {"reward/odd": (2.0, 2), "reward/even": (4.0, 1)}


@pytest.fixture
def never() -> Any:
    """An event that a stuck function waits for; set when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("responses", [["stuck"], ["good", "stuck", "good"], ["bad", "stuck"]])
def test_a_stuck_function_is_given_up_and_its_row_is_named(
    never: threading.Event, responses: list[str]
) -> None:
    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        if "bad" in responses and len(responses) == 1:
            raise ValueError
        if "stuck" in responses:
            never.wait()
        return [1.0] * len(responses)

    row = responses.index("stuck")
    message = f"mine.py:reward gave no result within 0.3 s; it was at row {row} of"
    with pytest.raises(RewardError, match=message):
        rewarder(reward, timeout=0.3).score(rollout_of(responses))


def test_a_stuck_async_function_is_cancelled() -> None:
    cancelled = threading.Event()

    async def reward(prompts: list[str], responses: list[str]) -> list[float]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return [1.0]

    with pytest.raises(RewardError, match="row 0 of 1: prompt 'prompt 0', response 'a'"):
        rewarder(reward, timeout=0.3).score(rollout_of(["a"]))
    assert cancelled.wait(10)


def test_a_row_that_hangs_after_the_batch_failed_is_named(never: threading.Event) -> None:
    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        if len(responses) > 1:
            raise ValueError("one at a time")
        if responses == ["stuck"]:
            never.wait()
        return [1.0]

    with pytest.raises(RewardError, match="it was at row 1 of 2"):
        rewarder(reward, timeout=0.3).score(rollout_of(["good", "stuck"]))


def test_a_batch_that_is_too_big_for_the_time_says_so(never: threading.Event) -> None:
    def reward(prompts: list[str], responses: list[str]) -> list[float]:
        if len(responses) > 1:
            never.wait()
        return [1.0]

    with pytest.raises(RewardError, match=r"each row alone is quick.*reward\.timeout"):
        rewarder(reward, timeout=0.5).score(rollout_of(["a", "b"]))
