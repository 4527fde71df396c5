"""What all pictures drawn with matplotlib share: fonts, inks, and how wide a text is."""

from functools import cache
from typing import Any

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

TITLE, NAME, SMALL = 14.0, 11.0, 8.5
"""Sizes of text, in points."""
LEADING = 1.3
MARGIN = 22.0
INK, SOFT, EDGE = "#1f2328", "#57606a", "#6e7781"
# Text stays text in SVG: it can be searched, and gets no larger than it must.
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rlgraph",
    "font.family": "DejaVu Sans",
    "text.parse_math": False,
}
METADATA: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""By ending: without dates, so that the same picture gives the same file."""


@cache
def width(text: str, size: float, bold: bool = False) -> float:
    """Of a line of text, in points."""
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().width)
