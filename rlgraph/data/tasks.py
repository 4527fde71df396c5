"""Questions from the reasoning_gym library, made on the spot."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from rlgraph.data.files import Found
from rlgraph.errors import DataError

DATA_SEED = 0
"""Of the questions, not of the run: runs with different seeds see the same data set."""


def make_task(name: str, size: int, options: Mapping[str, Any]) -> Any:
    """A reasoning_gym data set of ``size`` questions.

    Raises:
        DataError: there is no such task, or it does not take these options.
    """
    from reasoning_gym.factory import DATASETS, create_dataset

    if name not in DATASETS:
        close = difflib.get_close_matches(name, DATASETS) or sorted(DATASETS)
        raise DataError(f"reasoning_gym has no task '{name}'; it has {', '.join(close)}")
    known = {field.name for field in dataclasses.fields(DATASETS[name][1])} - {"size"}
    if unknown := [option for option in options if option not in known]:
        raise DataError(
            f"reasoning_gym:{name} has no option {', '.join(unknown)} (data.task_options); "
            f"it has {', '.join(sorted(known))}"
        )
    try:
        return create_dataset(name, **{"seed": DATA_SEED, **options}, size=size)
    except (AssertionError, TypeError, ValueError) as error:
        given = ", ".join(f"{key}={value}" for key, value in options.items()) or "no options"
        raise DataError(f"reasoning_gym:{name} cannot be made with {given}: {error}") from error


def read_task(name: str, size: int, options: Mapping[str, Any]) -> Iterator[Found]:
    """The questions of a task, each with what its scorer needs.

    Columns: ``prompt`` and ``question`` (the same text), ``answer``,
    ``metadata``, ``task``, ``task_options``.

    Raises:
        DataError: as :func:`make_task`.
    """
    task = make_task(name, size, options)
    shared = {"task": name, "task_options": dict(options)}
    for number in range(len(task)):
        where = f"question {number}"
        try:
            entry = task[number]
        except Exception as error:
            yield Found(where, None, f"reasoning_gym cannot make it: {error!r}")
        else:
            yield Found(where, {"prompt": entry["question"], **entry, **shared})
