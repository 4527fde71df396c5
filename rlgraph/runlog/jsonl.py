"""The log as files of one JSON object a line, readable with any tool."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from rlgraph.runlog.entries import Entry, Evaluation, Event, Samples, Step

RESERVED = frozenset({"step", "time", "non_finite"})
"""Keys of a metrics.jsonl line that no metric can have."""


class JsonlSink:
    """``metrics.jsonl``, ``samples.jsonl`` and ``events.jsonl`` in the run's folder.

    ``time`` is in seconds since 1970. Strict JSON: what is not finite is null.
    """

    def __init__(self, folder: Path) -> None:
        # A lone surrogate cannot be UTF-8; backslashreplace makes it a valid JSON escape.
        self._metrics, self._samples, self._events = (
            (folder / f"{name}.jsonl").open("a", encoding="utf-8", errors="backslashreplace")
            for name in ("metrics", "samples", "events")
        )

    def write(self, entry: Entry) -> None:
        """Append and flush."""
        now = round(time.time(), 3)
        match entry:
            case Step():
                seconds = {f"seconds/{name}": taken for name, taken in entry.seconds.items()}
                numbers = {**entry.metrics, **seconds}
                bad = [name for name, value in numbers.items() if not math.isfinite(value)]
                flag = {"non_finite": bad} if bad else {}
                _append(self._metrics, {"step": entry.step, "time": now, **numbers, **flag})
            case Samples():
                for row in entry.rows:
                    known = {key: v for key, v in asdict(row).items() if key != "answer"}
                    answer = {} if row.answer is None else {"answer": row.answer}
                    _append(self._samples, {"step": entry.step, **known, **answer})
            case Evaluation():
                line = {"kind": "evaluation", "time": now, "step": entry.step}
                _append(self._events, {**line, "metrics": entry.metrics})
            case Event():
                line = {"kind": entry.kind, "time": now, "message": entry.message}
                _append(self._events, {**line, **entry.fields})

    def close(self) -> None:
        """Close the files."""
        for file in (self._metrics, self._samples, self._events):
            file.close()


def _append(file: TextIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(_strict(line), allow_nan=False, ensure_ascii=False) + "\n")
    file.flush()


def _strict(value: Any) -> Any:
    """The same as plain JSON: null for what is not finite, text for what JSON lacks."""
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_strict(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return _strict(value.tolist())
    return str(value)
