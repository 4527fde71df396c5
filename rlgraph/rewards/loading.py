"""From what the user wrote on the command line to a reward function."""

import importlib
import importlib.util
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from rlgraph.errors import RewardError
from rlgraph.sourcefile import import_file

RewardFunction = Callable[..., Any]

BUILT_IN = {
    "reasoning_gym": "rlgraph.rewards.reasoning:task_score",
    "math_verify": "rlgraph.rewards.maths:equal_answer",
}


def load_function(target: str) -> RewardFunction:
    """Load ``file.py:name``, ``package.module:name`` or a built-in reward function.

    Without ``:name`` a file's function is called ``reward``, and a module's is what
    comes after the last dot.

    Raises:
        RewardError: there is no such file, module or function, or its import fails.
    """
    place, _, name = BUILT_IN.get(target, target).partition(":")
    if Path(place).suffix == ".py":
        module, name = _import_file(target, place), name or "reward"
    else:
        if not name:
            place, _, name = place.rpartition(".")
        if not place or not name:
            raise RewardError(
                f"reward.function '{target}': write file.py:name, package.module:name, "
                f"or one of {', '.join(BUILT_IN)}"
            )
        module = _import_module(target, place)
    function = getattr(module, name, None)
    if callable(function):
        return function
    own = [
        key
        for key, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
    ]
    what = "has no" if function is None else "has no function"
    raise RewardError(
        f"reward.function '{target}': {place} {what} '{name}'; "
        f"it defines {', '.join(own) or 'no function'}"
    )


def _import_module(target: str, place: str) -> ModuleType:
    try:
        found = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise RewardError(
            f"reward.function '{target}': there is no module '{place}' that can be imported here; "
            "to load a file, write file.py:name"
        )
    try:
        return importlib.import_module(place)
    except Exception as error:
        raise _broken(target, place) from error


def _import_file(target: str, place: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise RewardError(f"reward.function '{target}': there is no file {path}")
    try:
        return import_file(path, f"reward_file_{path.stem}")
    except Exception as error:
        raise _broken(target, place) from error


def _broken(target: str, place: str) -> RewardError:
    return RewardError(
        f"reward.function '{target}': importing {place} fails:\n{traceback.format_exc()}"
    )
