"""Numbers, times and foreign text, made fit for a terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

_BLOCKS = "▁▂▃▄▅▆▇█"


def visible(text: Any) -> str:
    r"""The text on one line with nothing in it that a terminal would act on.

    Control and format characters, and all blanks but the plain one, are escaped: a
    newline shows as ``\n``. Chat messages show as the last one's content.

    >>> visible("4\x1b[31m2\n")
    '4\\x1b[31m2\\n'
    """
    if isinstance(text, list) and text and isinstance(text[-1], dict) and "content" in text[-1]:
        text = text[-1]["content"]
    return "".join(_escape(char) for char in str(text))


def _escape(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def shorten(text: str, cells: int) -> str:
    """At most so many terminal cells, the middle left out: answers stand at the end.

    >>> shorten("We add the two numbers: 42", 15)
    'We add …ers: 42'
    """
    if cell_len(text) <= cells:
        return text
    if cells < 3:
        return set_cell_size(text, max(cells, 0))
    head = set_cell_size(text, cells // 2)
    tail, room = "", cells - cells // 2 - 1
    for char in reversed(text):
        if cell_len(char + tail) > room:
            break
        tail = char + tail
    return f"{head}…{tail}"


def number(value: float | None) -> str:
    """Three digits that matter, in few characters; ``-`` for what is missing.

    >>> [number(x) for x in (0.4123, 0.00132, 3.2, 12345.0, 2.1e-7, None)]
    ['0.412', '0.0013', '3.20', '12.3k', '2.1e-07', '-']
    """
    if value is None:
        return "-"
    size = abs(value)
    if not math.isfinite(value) or size >= 1e9:
        return f"{value:.2e}"
    if size >= 1e6:
        return f"{value / 1e6:.1f}M"
    if size >= 1e4:
        return f"{value / 1e3:.1f}k"
    if size >= 0.1 or size == 0:
        return f"{value:.{3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0}f}"
    return f"{value:.2g}" if size >= 1e-4 else f"{value:.1e}"


def clock(seconds: float) -> str:
    """``1:05`` or ``2:00:09``.

    >>> clock(65), clock(7209)
    ('1:05', '2:00:09')
    """
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def sparkline(values: Sequence[float], width: int) -> str:
    """The course of ``values`` in at most ``width`` characters; a blank where none is finite.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8)
    '▁▂▃▄▅▆▇█'
    """
    columns = min(width, len(values))
    means: list[float | None] = []
    for column in range(columns):
        part = values[column * len(values) // columns : (column + 1) * len(values) // columns]
        known = [value for value in part if math.isfinite(value)]
        means.append(sum(known) / len(known) if known else None)
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return ""
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(
        " " if mean is None else _BLOCKS[min(int((mean - low) / span * 8), 7)] for mean in means
    )


_HEADLINES = {
    "reward": "reward/mean",
    "length": "rollout/response_length",
    "cut off": "rollout/truncated",
    "rows": "rollout/rows",
}


def evaluation_line(step: int, metrics: Mapping[str, float]) -> str:
    """An evaluation's headline numbers; all of them if none is known. The files have all.

    >>> evaluation_line(3, {"reward/mean": 0.5, "reward/max": 1.0, "rollout/rows": 200})
    'evaluation after step 3: reward 0.500, rows 200'
    """
    known = {label: metrics[name] for label, name in _HEADLINES.items() if name in metrics}
    shown = [f"{label} {number(value)}" for label, value in (known or metrics).items()]
    return f"evaluation after step {step}: {', '.join(shown) or 'no metrics'}"
