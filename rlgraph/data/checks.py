"""What makes a row usable, and what happens to one that is not."""

import logging
from collections.abc import Iterable
from typing import Any, Literal

from rlgraph.data.files import Found
from rlgraph.errors import DataError

logger = logging.getLogger(__name__)

Prompt = str | list[dict[str, Any]]
"""Text, or chat messages: ``{"role": ..., "content": ...}``."""

_SHOWN = 5


class BadRows:
    """Counts rows that cannot be used and names them; or stops at the first one."""

    def __init__(self, source: str, action: Literal["skip", "stop"]) -> None:
        self.source = source
        self.action = action
        self.count = 0

    def add(self, where: str, reason: str) -> None:
        """Leave out one row.

        Raises:
            DataError: bad rows are to stop the run.
        """
        if self.action == "stop":
            raise DataError(
                f"{self.source}, {where}: {reason}; "
                "mend it, or leave out such rows with --data.on-bad-row skip"
            )
        self.count += 1
        if self.count <= _SHOWN:
            logger.warning("%s, %s is left out: %s", self.source, where, reason)

    def summarise(self, total: int) -> None:
        """Say how many of ``total`` rows were left out, if any."""
        if self.count:
            logger.warning("%s: %d of %d rows are left out", self.source, self.count, total)


def check_rows(
    found: Iterable[Found], prompt_key: str, answer_key: str | None, bad: BadRows
) -> list[tuple[str, dict[str, Any]]]:
    """The usable rows, each with where it is and its columns.

    The columns are the row's own, and ``prompt`` and ``answer``.

    Raises:
        DataError: there are no rows, no row has a needed column, or no row is usable.
    """
    rows = list(found)
    if not rows:
        raise DataError(f"{bad.source} is empty: it has no rows")
    keys = sorted({str(key) for row in rows for key in row.columns or ()})
    for setting, key in (("prompt_key", prompt_key), ("answer_key", answer_key)):
        if key is not None and keys and key not in keys:
            none = ", or None if there is none" if setting == "answer_key" else ""
            flag = setting.replace("_", "-")
            raise DataError(
                f"{bad.source} has no column '{key}' (data.{setting}); its columns are "
                f"{', '.join(keys)}: choose one with --data.{flag}{none}"
            )
    usable = []
    for row in rows:
        columns, fault = row.columns, row.fault
        if columns is not None:
            missing = [key for key in (prompt_key, answer_key) if key and key not in columns]
            fault = f"it has no '{missing[0]}'" if missing else prompt_fault(columns[prompt_key])
        if columns is None or fault:
            bad.add(row.where, fault)
            continue
        prompt = columns[prompt_key]
        if not isinstance(prompt, str):
            # Table formats fill in the keys that other messages have, with None.
            prompt = [{k: v for k, v in m.items() if v is not None} for m in prompt]
        columns = {**columns, "prompt": prompt}
        if answer_key is not None:
            columns["answer"] = columns[answer_key]
        usable.append((row.where, columns))
    if not usable:
        raise DataError(f"{bad.source}: none of its {len(rows)} rows can be used")
    return usable


def prompt_fault(prompt: Any) -> str:
    """What is wrong with a prompt; empty if nothing is."""
    if isinstance(prompt, str):
        return "" if prompt else "the prompt is empty"
    if not isinstance(prompt, list):
        return f"the prompt is a {type(prompt).__name__}; it must be text or a list of messages"
    if not prompt:
        return "the prompt is empty: it has no messages"
    for number, message in enumerate(prompt):
        if not isinstance(message, dict):
            return f"message {number} is a {type(message).__name__}, not an object"
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                return f"message {number} has no text under '{key}'"
    if prompt[-1]["role"] == "assistant":
        return "the last message is the assistant's, so nothing is left to answer"
    return ""
