"""A graph as a picture, drawn with matplotlib. Units are points throughout."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path as Line

from rlgraph.draw.colours import PURE, Colours, colours_of
from rlgraph.draw.layers import Cell, Layers, Size
from rlgraph.draw.layout import layout
from rlgraph.draw.routes import Curve, Point, loop, route
from rlgraph.draw.scene import NEXT_STEP, Box, Scene, scene_of, title
from rlgraph.draw.style import (
    EDGE,
    INK,
    LEADING,
    MARGIN,
    METADATA,
    NAME,
    SMALL,
    SOFT,
    STYLE,
    TITLE,
)
from rlgraph.draw.style import width as text_width
from rlgraph.graph import Graph

_BACK = "#8250df"


def save(graph: Graph, path: Path) -> None:
    """Draw ``graph`` into ``path``; its ending says in which format."""
    scene = scene_of(graph)
    layers = layout(
        {box.name: _box_size(box) for box in scene.boxes},
        {(arrow.source, arrow.target): _label_size(arrow.lines) for arrow in scene.arrows},
    )
    with mpl.rc_context(STYLE):
        figure = _draw(graph.name, scene, layers)
        metadata = METADATA.get(path.suffix.lower())
        figure.savefig(path, dpi=200, facecolor="white", metadata=metadata)


def _draw(name: str, scene: Scene, layers: Layers) -> Figure:
    loops = [
        loop(layers.nodes[back.source], layers.nodes[back.target], layers, index)
        for index, back in enumerate(scene.back)
    ]
    cells = [cell for row in layers.rows for cell in row]
    right = max(cell.right for cell in cells)
    if loops:
        right = max(spot.label.x for spot in loops) + text_width("next step's", SMALL) / 2 + 4
    legend, across, tall = _legend(scene, right)
    width = max(right, across, text_width(name, TITLE, bold=True)) + 2 * MARGIN
    header = TITLE * LEADING + 16
    bottom = max(cell.bottom for cell in cells)
    height = header + bottom + 30 + tall + 2 * MARGIN

    figure = Figure(figsize=(width / 72, height / 72))
    left = (width - right) / 2
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-left, width - left)
    axes.set_ylim(height - MARGIN - header, -MARGIN - header)
    top = -header + TITLE / 2
    axes.text(MARGIN - left, top, name, size=TITLE, weight="bold", color=INK, va="center")

    for arrow in scene.arrows:
        chain = layers.chains[arrow.source, arrow.target]
        _draw_line(axes, route(chain, layers), EDGE)
        label = next(cell for cell in chain if cell.kind == "label")
        _draw_label(axes, Point(label.x, label.y), arrow.lines, SOFT)
    for spot in loops:
        _draw_line(axes, spot.curves, _BACK, dashed=True)
        _draw_label(axes, spot.label, _broken(NEXT_STEP), _BACK)
    colours = colours_of(scene.residents)
    for box in scene.boxes:
        colour = colours[box.resident.name] if box.resident is not None else PURE
        _draw_box(axes, box, layers.nodes[box.name], colour)
    origin = Point((right - across) / 2, bottom + 30)
    for text, colour, at in legend:
        _draw_swatch(axes, Point(origin.x + at.x, origin.y + at.y), text, colour)
    return figure


def _draw_box(axes: Axes, box: Box, cell: Cell, colours: Colours) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (cell.left + 6, cell.top + 6),
            cell.width - 12,
            cell.height - 12,
            boxstyle="round,pad=6,rounding_size=9",
            facecolor=colours.fill,
            edgecolor=colours.line,
            linewidth=1.3,
            zorder=3,
        )
    )
    texts = [
        (text, NAME if index == 0 else SMALL, colour)
        for index, (text, colour) in enumerate(_texts(box, colours))
    ]
    y = cell.y - sum(size * LEADING for _, size, _ in texts) / 2
    for text, size, colour in texts:
        weight = "bold" if size == NAME else "normal"
        y += size * LEADING / 2
        style: dict[str, Any] = {"size": size, "weight": weight, "color": colour}
        axes.text(cell.x, y, text, ha="center", va="center_baseline", zorder=4, **style)
        y += size * LEADING / 2


def _texts(box: Box, colours: Colours) -> list[tuple[str, str]]:
    """A box's lines and their colours: its name, its loss, its resident."""
    resident = [(box.resident.name, colours.text)] if box.resident is not None else []
    return [(box.name, INK), *((note, SOFT) for note in box.notes), *resident]


def _draw_label(axes: Axes, centre: Point, lines: Sequence[str], colour: str) -> None:
    width, height = _label_size(lines)
    axes.add_patch(
        FancyBboxPatch(
            (centre.x - width / 2, centre.y - height / 2),
            width,
            height,
            boxstyle="square,pad=0",
            facecolor="white",
            edgecolor="none",
            zorder=2,
        )
    )
    y = centre.y - SMALL * LEADING * (len(lines) - 1) / 2
    for index, line in enumerate(lines):
        axes.text(
            centre.x,
            y + index * SMALL * LEADING,
            line,
            size=SMALL,
            color=colour,
            ha="center",
            va="center_baseline",
            zorder=2.5,
        )


def _draw_line(axes: Axes, curves: Sequence[Curve], colour: str, dashed: bool = False) -> None:
    """The line, and a head where it ends."""
    last = curves[-1]
    tip = last.end
    back = next(p for p in (last.control_end, last.control, last.start) if p != tip)
    length = ((tip.x - back.x) ** 2 + (tip.y - back.y) ** 2) ** 0.5
    along = Point((tip.x - back.x) / length, (tip.y - back.y) / length)
    base = Point(tip.x - 7 * along.x, tip.y - 7 * along.y)
    wings = [
        Point(base.x - 3.2 * along.y * side, base.y + 3.2 * along.x * side) for side in (-1, 1)
    ]
    axes.add_patch(Polygon([tip, *wings], closed=True, color=colour, linewidth=0, zorder=2.2))
    vertices: list[Point] = [curves[0].start]
    codes = [Line.MOVETO]
    for curve in curves:
        # The line ends inside its head, so that no blunt end shows beside the tip.
        end = Point(tip.x - 4 * along.x, tip.y - 4 * along.y) if curve is last else curve.end
        vertices += [curve.control, curve.control_end, end]
        codes += [Line.CURVE4] * 3
    axes.add_patch(
        PathPatch(
            Line(vertices, codes),
            facecolor="none",
            edgecolor=colour,
            linewidth=1.2,
            linestyle=(0, (4, 2.5)) if dashed else "solid",
            zorder=1,
        )
    )


def _legend(scene: Scene, width: float) -> tuple[list[tuple[str, Colours, Point]], float, float]:
    """Entries with their places, in lines no wider than the picture; width and height."""
    colours = colours_of(scene.residents)
    entries = [(title(one), colours[one.name]) for one in scene.residents]
    if any(box.resident is None for box in scene.boxes):
        entries.append(("pure function", PURE))
    placed: list[tuple[str, Colours, Point]] = []
    x = y = across = 0.0
    for text, colour in entries:
        taken = 18 + text_width(text, SMALL)
        if x and x + taken > max(width, 300):
            x, y = 0.0, y + 17
        placed.append((text, colour, Point(x, y)))
        across = max(across, x + taken)
        x += taken + 20
    return placed, across, y + 8


def _draw_swatch(axes: Axes, at: Point, text: str, colours: Colours) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (at.x + 2, at.y - 4),
            8,
            8,
            boxstyle="round,pad=1,rounding_size=2.5",
            facecolor=colours.fill,
            edgecolor=colours.line,
            linewidth=1.1,
        )
    )
    axes.text(at.x + 18, at.y, text, size=SMALL, color=SOFT, va="center_baseline")


def _box_size(box: Box) -> Size:
    name, *others = (text for text, _ in _texts(box, PURE))
    widths = [text_width(name, NAME, bold=True), *(text_width(text, SMALL) for text in others)]
    height = LEADING * (NAME + SMALL * len(others))
    return max(*widths, 54.0) + 30, height + 16


def _label_size(lines: Sequence[str]) -> Size:
    return max(text_width(line, SMALL) for line in lines) + 8, LEADING * SMALL * len(lines) + 4


def _broken(text: str) -> tuple[str, ...]:
    """In two lines, at the last blank."""
    return tuple(text.rsplit(" ", 1))
