"""Scoring with a function that the user wrote.

A reward function looks like this, and may be ``async``::

    def reward(prompts, responses, answer, **columns):
        return [float(r.strip() == a) for r, a in zip(responses, answer)]

It takes the prompts and the responses of a batch, then columns of the data set by
name, as lists: those that its signature names, or all of them with ``**columns``.
It returns one number a row, or a pair of these and a dict of metrics, which has
one number a row for each name. Numbers may be in a list, an array or a tensor;
None and NaN say that a row has no score.
"""

import inspect
import logging
import math
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlgraph.errors import RewardError
from rlgraph.metrics import log
from rlgraph.records import Rewards, Rollout
from rlgraph.rewards.loading import RewardFunction
from rlgraph.rewards.results import Scored, read_result
from rlgraph.rewards.timelimit import OutOfTime, call_within

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """What a reward function is called with."""

    prompts: list[Any]
    responses: list[str]
    columns: dict[str, list[Any]]

    def row(self, number: int) -> "Batch":
        """One row of it."""
        only = slice(number, number + 1)
        columns = {name: values[only] for name, values in self.columns.items()}
        return Batch(self.prompts[only], self.responses[only], columns)


class FunctionRewarder:
    """Calls a reward function; a row that it fails on is invalid, and the others count.

    Raises:
        RewardError: the function does not take prompts and responses.
    """

    def __init__(self, function: RewardFunction, label: str, timeout: float) -> None:
        self.function = function
        self.label = f"reward function {label}"
        self.timeout = timeout
        parameters = list(inspect.signature(function).parameters.values())
        by_position = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        self._leading = [p.name for p in by_position[:2]]
        if len(by_position) < 2 and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            raise RewardError(
                f"{self.label} must take the prompts and the responses first: "
                "def reward(prompts, responses, **columns)"
            )
        further = [
            p
            for p in parameters
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in self._leading
        ]
        self._optional = [p.name for p in further if p.default is not p.empty]
        self._needed = [p.name for p in further if p.default is p.empty]
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)

    def score(self, rollout: Rollout) -> Rewards:
        """Scores ``[batch]``, float32; invalid where the function failed or gave none.

        Raises:
            RewardError: the function failed on every row, took too long, gave
                something else than a number a row, or wants a column that is not there.
        """
        rows = len(rollout)
        if not rows:
            return Rewards.of([])
        batch = self._batch(list(rollout.columns), list(rollout.response))
        try:
            scored = self._call(batch, self.timeout)
        except OutOfTime:
            raise self._stuck(batch) from None
        except RewardError:
            raise
        except Exception as error:
            scored = self._row_by_row(batch, error)
        rewards = Rewards.of(scored.scores)
        for name, values in scored.metrics.items():
            numbers = torch.tensor(values)
            log(f"reward/{name}", numbers, rewards.valid & numbers.isfinite())
        return rewards

    def _batch(self, rows: Sequence[dict[str, Any]], responses: list[str]) -> Batch:
        present = list(dict.fromkeys(key for row in rows for key in row))
        if missing := [name for name in self._needed if name not in present]:
            raise RewardError(
                f"{self.label} wants a column '{missing[0]}' that the data set does not have; "
                f"it has {', '.join(present) or 'none'}"
            )
        names = [name for name in (*self._needed, *self._optional) if name in present]
        if self._takes_all:
            first = {"prompt", *self._leading, *names}
            names += [name for name in present if name not in first]
        columns = {name: [row.get(name) for row in rows] for name in names}
        return Batch([row.get("prompt") for row in rows], responses, columns)

    def _call(self, batch: Batch, seconds: float) -> Scored:
        result = call_within(
            seconds, self.function, batch.prompts, batch.responses, **batch.columns
        )
        return read_result(result, len(batch.responses), self.label)

    def _row_by_row(self, batch: Batch, error: Exception) -> Scored:
        """Each row alone; those that fail have no score."""
        rows = len(batch.responses)
        first = "".join(traceback.format_exception(error))
        scored = Scored()
        failed: list[int] = []
        # A batch of one has just been tried.
        for row in range(rows) if rows > 1 else ():
            try:
                alone = self._call(batch.row(row), self.timeout)
            except OutOfTime:
                raise RewardError(self._too_long(batch, row)) from None
            except RewardError:
                raise
            except Exception as failure:
                if not failed:
                    first = "".join(traceback.format_exception(failure))
                failed.append(row)
                alone = Scored([math.nan])
            scored.scores += alone.scores
            for name, values in alone.metrics.items():
                known = scored.metrics.setdefault(name, [])
                known += [math.nan] * (row - len(known)) + values
        if rows == 1 or len(failed) == rows:
            raise RewardError(
                f"{self.label} failed on each of {rows} rows; the first time:\n{first}"
            )
        for values in scored.metrics.values():
            values += [math.nan] * (rows - len(values))
        if failed:
            text = (
                "%s failed on %d of %d rows, which do not count; first on row %d (prompt %s):\n%s"
            )
            prompt = _short(batch.prompts[failed[0]])
            logger.warning(text, self.label, len(failed), rows, failed[0], prompt, first)
        else:
            text = "%s failed on a batch of %d rows, but not on any of them alone:\n%s"
            logger.warning(text, self.label, rows, first)
        return scored

    def _stuck(self, batch: Batch) -> RewardError:
        """Find the row that a batch hangs at, with as much time again."""
        rows = len(batch.responses)
        if rows == 1:
            return RewardError(self._too_long(batch, 0))
        deadline = time.monotonic() + self.timeout
        for row in range(rows):
            try:
                self._call(batch.row(row), max(deadline - time.monotonic(), 0.0))
            except OutOfTime:
                return RewardError(self._too_long(batch, row))
            except Exception:
                # Being slow is what is looked for; failing is not being slow.
                continue
        return RewardError(
            f"{self.label} gave no result for {rows} rows within {self.timeout:g} s, though each "
            "row alone is quick; allow it more time with --reward.timeout"
        )

    def _too_long(self, batch: Batch, row: int) -> str:
        return (
            f"{self.label} gave no result within {self.timeout:g} s; it was at row {row} of "
            f"{len(batch.responses)}: prompt {_short(batch.prompts[row])}, response "
            f"{_short(batch.responses[row])}. "
            "Mend the function, or allow more time with --reward.timeout"
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
