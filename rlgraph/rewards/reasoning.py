"""Scoring answers to reasoning_gym questions with the task's own scorer."""

import ast
import functools
import logging
from typing import Any

from rlgraph.data.tasks import make_task

logger = logging.getLogger(__name__)


def task_score(
    prompts: list[Any],
    responses: list[str],
    *,
    task: list[str],
    task_options: list[dict[str, Any]],
    question: list[str],
    answer: list[Any],
    metadata: list[dict[str, Any]],
) -> list[float | None]:
    """What each task's ``score_answer`` gives for the response, white space around it removed.

    Scores are passed on as they are. Many scorers give partial credit, some a
    little even to an empty or wrong answer. Where a scorer fails on an answer
    (some do on malformed ones) the row has no score.
    """
    scores: list[float | None] = []
    rows = zip(responses, task, task_options, question, answer, metadata, strict=True)
    for response, name, options, asked, solution, details in rows:
        scorer = _scorer(name, repr(options))
        entry = {"question": asked, "answer": solution, "metadata": details}
        try:
            scores.append(float(scorer.score_answer(response.strip(), entry)))
        except Exception:
            # Not raised: a batch may well be full of malformed answers, early in a run.
            logger.warning(
                "the scorer of reasoning_gym:%s fails on %r, which gets no score",
                *(name, response),
                exc_info=True,
            )
            scores.append(None)
    return scores


@functools.lru_cache(maxsize=64)
def _scorer(task: str, options: str) -> Any:
    # Some tasks score by their configuration, so it has to be that of the questions.
    return make_task(task, 1, ast.literal_eval(options))
