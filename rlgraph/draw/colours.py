"""One colour for each resident, the same in every kind of picture."""

import colorsys
from collections.abc import Sequence
from typing import NamedTuple

from rlgraph.models import Resident


class Colours(NamedTuple):
    """Of a box: its inside, its outline and its text, as ``#rrggbb``."""

    fill: str
    line: str
    text: str


PURE = Colours("#f6f8fa", "#8c959f", "#57606a")
"""Of nodes that run on no model."""

# Hues that stay apart for most kinds of colour blindness, as long as they last.
_HUES = (0.58, 0.09, 0.43, 0.88, 0.14, 0.72, 0.0, 0.3)


def colours_of(residents: Sequence[Resident]) -> dict[str, Colours]:
    """Colours by resident name, in the order of first use."""
    return {resident.name: _colours(index) for index, resident in enumerate(residents)}


def _colours(index: int) -> Colours:
    # Past the listed hues, steps of the golden ratio keep filling the widest gap.
    hue = _HUES[index] if index < len(_HUES) else (index * 0.618) % 1.0
    return Colours(_hex(hue, 0.92, 0.85), _hex(hue, 0.45, 0.6), _hex(hue, 0.3, 0.7))


def _hex(hue: float, lightness: float, saturation: float) -> str:
    parts = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)
