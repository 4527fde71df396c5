"""The scorers that come with the project: reasoning_gym's and math-verify's."""

import logging
import sys
from typing import Any

import pytest
from rollouts import rollout_of

from rlgraph import RewardError
from rlgraph.data.tasks import make_task, read_task
from rlgraph.rewards import RewardConfig, build_rewarder
from rlgraph.settings import RunContext


def score(function: str, responses: list[str], columns: list[dict[str, Any]]) -> list[float | None]:
    rewarder = build_rewarder(RewardConfig(function=function), RunContext())
    rewards = rewarder.score(rollout_of(responses, columns))
    pairs = zip(rewards.scores.tolist(), rewards.valid.tolist(), strict=True)
    return [score if valid else None for score, valid in pairs]


def questions(task: str, count: int, **options: Any) -> list[dict[str, Any]]:
    return [found.columns for found in read_task(task, count, options) if found.columns]


@pytest.mark.parametrize("task", ["chain_sum", "basic_arithmetic", "countdown", "spell_backward"])
def test_scores_are_the_tasks_own(task: str) -> None:
    rows = questions(task, 8)
    answers = [row["answer"] for row in rows]
    for responses in (answers, answers[::-1], ["nonsense"] * 8, [""] * 8):
        own = make_task(task, 8, {})
        expected = [
            own.score_answer(response, entry)
            for response, entry in zip(responses, (own[i] for i in range(8)), strict=True)
        ]
        assert score("reasoning_gym", responses, rows) == pytest.approx(expected)


def test_right_answers_score_one_with_white_space_around_them() -> None:
    rows = [*questions("spell_backward", 3), *questions("chain_sum", 3, max_terms=2)]
    padded = [f" {row['answer']}\n" for row in rows]
    assert score("reasoning_gym", padded, rows) == [1.0] * 6


def test_the_scorer_is_configured_as_the_questions_were() -> None:
    # This task refuses numbers over max_value.
    rows = questions("puzzle24", 4, max_value=10)
    answers = [row["answer"] for row in rows]
    assert score("reasoning_gym", answers, rows) == [1.0] * 4
    stricter = [{**row, "task_options": {"max_value": 3}} for row in rows]
    assert max(score("reasoning_gym", answers, stricter)) < 1.0


def test_partial_credit_is_passed_on() -> None:
    (row,) = questions("basic_arithmetic", 1)
    assert score("reasoning_gym", [f"{row['answer']}" * 2], [row]) == [0.5]


def test_answers_that_break_a_scorer_have_no_score(caplog: pytest.LogCaptureFixture) -> None:
    rows = questions("prime_factorization", 2)
    with caplog.at_level(logging.WARNING):
        assert score("reasoning_gym", ["zzz", rows[1]["answer"]], rows) == [None, 1.0]
        # Even if they all do: early in a run every answer may be malformed.
        assert score("reasoning_gym", ["zzz", "zzz"], rows) == [None, None]
    assert "prime_factorization fails on 'zzz'" in caplog.text


def test_other_data_has_no_task() -> None:
    with pytest.raises(RewardError, match="column 'task'"):
        score("reasoning_gym", ["2"], [{"prompt": "1+1", "answer": "2"}])


math_verify = pytest.importorskip("math_verify")


@pytest.mark.parametrize(
    ("answer", "response", "expected"),
    [
        ("72", "The answer is 72.", 1.0),
        ("72", "The answer is \\boxed{72}.", 1.0),
        ("72", "The answer is 73.", 0.0),
        ("1/2", "so $x = \\frac{1}{2}$", 1.0),
        ("1/2", "so $0.5$", 1.0),
        ("\\frac{1}{2}", "0.5", 1.0),
        ("$x^2 + 1$", "$1 + x^2$", 1.0),
        ("12 pens at 6 each. #### 72", "$72$", 1.0),
        (72, "72", 1.0),
        ("72", "I do not know", 0.0),
        ("72", "", 0.0),
        ("", "72", None),
    ],
)
def test_equal_answers_score_one(answer: Any, response: str, expected: float | None) -> None:
    assert score("math_verify", [response], [{"prompt": "?", "answer": answer}]) == [expected]


def test_without_the_library_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(RewardError, match=r"pip install 'rlgraph\[math\]'"):
        score("math_verify", ["1", "2"], [{"prompt": "?", "answer": "1"}] * 2)
