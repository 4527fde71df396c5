"""The plan of a step as a timeline: a lane per device set, one for the host. Units are points."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from rlgraph.draw.colours import PURE, Colours, colours_of
from rlgraph.draw.style import (
    EDGE,
    INK,
    LEADING,
    MARGIN,
    METADATA,
    SMALL,
    SOFT,
    STYLE,
    TITLE,
    width,
)
from rlgraph.lanes import stacked
from rlgraph.scheduling.plan import HOST, Event, Plan, Run, Sleep, SyncWeights, Wake
from rlgraph.scheduling.progress import simulate

CAPTION = (
    "From left to right in the plan's order; what stands side by side runs at the same time. "
    "Widths make room for names: they are not times."
)
_SMALLER = 7.5
_RUN, _OTHER = 72.0, 40.0
"""The least widths: of runs on models, and of everything else."""
_GAP = 4.0
_HEIGHT, _MEMORY, _BETWEEN = 38.0, 20.0, 14.0
"""Of a row of boxes, of a memory line, and between lanes."""
_HATCH = "////"


@dataclass(frozen=True)
class Lane:
    """A device set or the host: where it is, and the rows of boxes in it."""

    name: str
    note: str
    top: float
    rows: int
    memory: bool

    @property
    def bottom(self) -> float:
        """Of its boxes, as y; the memory line is below."""
        return self.top + self.rows * (_HEIGHT + _GAP) - _GAP

    @property
    def end(self) -> float:
        """The bottom of all of it."""
        return self.bottom + (_MEMORY + 5 if self.memory else 0)


@dataclass(frozen=True)
class Spot:
    """An event's box in one of its lanes."""

    event: Event
    lane: str
    left: float
    right: float
    top: float
    bottom: float


def save(plan: Plan, path: Path) -> None:
    """Draw ``plan`` into ``path``; its ending says in which format."""
    with mpl.rc_context(STYLE):
        figure = _draw(plan)
        metadata = METADATA.get(path.suffix.lower())
        figure.savefig(path, dpi=200, facecolor="white", metadata=metadata)


def arrange(plan: Plan) -> tuple[list[Lane], list[Spot]]:
    """Where everything is; x and y from 0, y downwards."""
    spans = simulate(plan, lambda event: _box_width(plan, event) + _GAP)
    hosted = [span for span in spans if span.event.places == (HOST,)]
    rows = dict(zip((id(span.event) for span in hosted), stacked(hosted), strict=True))
    used = {place for event in plan.events for place in event.places}
    lanes: dict[str, Lane] = {}
    top = 0.0
    for name in (HOST, *_in_order(plan)):
        if name in used:
            memory = any(event.held.get(name) for event in plan.events)
            height = max(rows.values(), default=0) + 1 if name == HOST else 1
            lanes[name] = Lane(name, _note(plan, name), top, height, memory)
            top = lanes[name].end + _BETWEEN
    spots = []
    for span in spans:
        for place in span.event.places:
            y = lanes[place].top + rows.get(id(span.event), 0) * (_HEIGHT + _GAP)
            spots.append(Spot(span.event, place, span.begin, span.end - _GAP, y, y + _HEIGHT))
    return list(lanes.values()), spots


def memory_line(plan: Plan, place: str, spots: Sequence[Spot]) -> list[tuple[float, int]]:
    """From which x on how many bytes are held on each device of a set."""
    found: list[tuple[float, int]] = []
    for spot in sorted((s for s in spots if s.lane == place), key=lambda spot: spot.left):
        change = isinstance(spot.event.action, Wake | Sleep)
        # What is held before the first change is not in the plan.
        found.append((spot.right if change else spot.left, spot.event.held[place]))
    return found


def _in_order(plan: Plan) -> list[str]:
    """Device sets by first use."""
    places = [place for event in plan.events for place in event.places if place != HOST]
    return list(dict.fromkeys(places))


def _note(plan: Plan, name: str) -> str:
    if name == HOST:
        return ""
    kind = "GPU" if plan.placement.devices.kind == "gpu" else "CPU slot"
    count = plan.placement.sets[name].devices
    return f"{count} {kind}" + ("s" if count > 1 else "")


def _texts(plan: Plan, event: Event) -> list[str]:
    """The lines in a box: what, on whom, and of which batch."""
    match event.action:
        case Run(node=node, resident=resident, part=part, ahead=ahead):
            lines = [f"{node} {part}".rstrip(), resident or ""]
            return [*filter(None, lines), *(["next step's batch"] if ahead else [])]
        case SyncWeights(trainer=trainer, sampler=sampler):
            short = trainer.rsplit(".", 1)[-1], sampler.rsplit(".", 1)[-1]
            same = trainer.rsplit(".", 1)[0] == sampler.rsplit(".", 1)[0]
            return ["sync weights", " → ".join(short if same else (trainer, sampler))]
        case Wake(resident=resident, part=part):
            return ["wake" if part == "all" else "wake weights", resident]
        case Sleep(resident=resident):
            return ["sleep", resident]


def _box_width(plan: Plan, event: Event) -> float:
    name, *others = _texts(plan, event)
    needed = max(width(name, SMALL, bold=True), *(width(text, _SMALLER) for text in ("", *others)))
    return max(needed + 14, _OTHER if event.places == (HOST,) else _RUN)


def _draw(plan: Plan) -> Figure:
    lanes, spots = arrange(plan)
    right = max((spot.right for spot in spots), default=0.0)
    placement = plan.placement
    budget = placement.devices.memory
    limit = f", {budget / 2**20:,.0f} MiB each" if budget else ""
    title = f"A step of {plan.graph.name}"
    left = 16 + max(
        [width(lane.name, SMALL, bold=True) for lane in lanes]
        + [width(_held_text(plan, lane, budget), _SMALLER) for lane in lanes if lane.memory]
    )
    total = left + max(right, 420.0) + 2 * MARGIN
    legend, legend_height = _legend(plan, left + max(right, 420.0))
    header = TITLE * LEADING + 30
    caption = _wrapped(CAPTION, left + max(right, 420.0))
    bottom = lanes[-1].end
    height = header + bottom + 26 + legend_height + len(caption) * _SMALLER * 1.4 + 2 * MARGIN
    figure = Figure(figsize=(total / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-MARGIN - left, total - MARGIN - left)
    axes.set_ylim(height - MARGIN - header, -MARGIN - header)
    _write(axes, -left, -header + TITLE / 2, title, TITLE, INK, bold=True)
    count = sum(device_set.devices for device_set in placement.sets.values())
    kind = "GPU" if placement.devices.kind == "gpu" else "CPU slot"
    words = f"{count} {kind}{'s' if count > 1 else ''}{limit}; {plan.transitions} sleeps and wakes"
    _write(axes, -left, -header + TITLE * LEADING + 6, words, SMALL, SOFT)

    colours = colours_of(list(plan.graph.residents.values()))
    for lane in lanes:
        _draw_lane(axes, plan, lane, spots, -left, right, budget)
    _draw_links(axes, spots)
    for spot in spots:
        _draw_spot(axes, plan, spot, colours)
    for kind_of, text, x, y in legend:
        at = bottom + 26 + y
        _swatch(axes, x - left, at, kind_of, colours.get(text, PURE))
        _write(axes, x - left + 24, at, text, SMALL, SOFT)
    for index, line in enumerate(caption):
        y = bottom + 26 + legend_height + index * _SMALLER * 1.4
        _write(axes, -left, y, line, _SMALLER, SOFT, italic=True)
    return figure


def _draw_lane(
    axes: Axes,
    plan: Plan,
    lane: Lane,
    spots: Sequence[Spot],
    start: float,
    right: float,
    budget: int | None,
) -> None:
    _box(axes, -4, lane.top - 4, right + 4, lane.bottom + 4, "#f6f8fa", "none", zorder=0)
    middle = (lane.top + lane.bottom) / 2
    shift = 6 if lane.note else 0
    _write(axes, start, middle - shift, lane.name, SMALL, INK, bold=True)
    _write(axes, start, middle + shift, lane.note, _SMALLER, SOFT)
    if not lane.memory:
        return
    line = memory_line(plan, lane.name, spots)
    full = budget or max(held for event in plan.events for held in event.held.values())
    base = lane.end
    xs = [x for x, _ in line] + [right]
    ys = [base - (_MEMORY - 4) * held / full for _, held in line]
    ys.append(ys[-1])
    axes.fill_between(xs, base, ys, step="post", color="#0969da", alpha=0.16, linewidth=0)
    axes.step(xs, ys, where="post", color="#0969da", linewidth=1.0)
    axes.plot([0, right], [base, base], color="#d0d7de", linewidth=0.8)
    if budget:
        limit = base - _MEMORY + 4
        axes.plot([0, right], [limit, limit], color="#cf222e", linewidth=0.8, linestyle=(0, (4, 3)))
    _write(axes, start, base - _MEMORY / 2 + 2, _held_text(plan, lane, budget), _SMALLER, SOFT)


def _held_text(plan: Plan, lane: Lane, budget: int | None) -> str:
    most = max(event.held.get(lane.name, 0) for event in plan.events) / 2**20
    limit = f" of {budget / 2**20:,.0f}" if budget else ""
    return f"up to {most:,.0f}{limit} MiB"


def _draw_links(axes: Axes, spots: Sequence[Spot]) -> None:
    """A line between the boxes of an event that occupies several sets."""
    for one in spots:
        for other in spots:
            if one.event is other.event and one.bottom < other.top:
                x = (one.left + one.right) / 2
                axes.plot([x, x], [one.bottom, other.top], color=EDGE, linewidth=2.0, zorder=1)


def _draw_spot(axes: Axes, plan: Plan, spot: Spot, colours: dict[str, Colours]) -> None:
    action = spot.event.action
    name = action.sampler if isinstance(action, SyncWeights) else action.resident
    colour = colours.get(name, PURE) if name else PURE
    kind = _kind(spot.event)
    _shape(axes, spot.left, spot.top, spot.right, spot.bottom, kind, colour)
    texts = _texts(plan, spot.event)
    sizes = [SMALL, *[_SMALLER] * (len(texts) - 1)]
    leading = LEADING if len(texts) < 3 else 1.25
    y = (spot.top + spot.bottom) / 2 - sum(sizes) * leading / 2
    for index, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        y += size * leading / 2
        style: dict[str, Any] = {"weight": "bold"} if index == 0 else {}
        if kind == "sync":
            style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.text(
            (spot.left + spot.right) / 2, y, text, size=size, ha="center", va="center_baseline",
            color=INK if index == 0 else colour.text, zorder=5, **style,
        )  # fmt: skip
        y += size * leading / 2


def _kind(event: Event) -> str:
    match event.action:
        case Run(ahead=ahead):
            return "ahead" if ahead else "run"
        case SyncWeights():
            return "sync"
        case Wake():
            return "wake"
        case Sleep():
            return "sleep"


def _shape(
    axes: Axes, left: float, top: float, right: float, bottom: float, kind: str, colour: Colours
) -> None:
    """Runs are filled; a sync is hatched; wakes are white, sleeps grey; dashes: no work of now."""
    face = {"sync": "white", "wake": "white", "sleep": "#dfe3e8"}.get(kind, colour.fill)
    line = "solid" if kind in ("run", "sync", "wake") else (0, (4, 2))
    hatch = _HATCH if kind == "sync" else None
    bounds = (left, top, right, bottom)
    _box(axes, *bounds, face, colour.line, zorder=3, round_=5, linestyle=line, hatch=hatch)


def _box(
    axes: Axes,
    left: float,
    top: float,
    right: float,
    bottom: float,
    face: str,
    edge: str,
    zorder: float,
    round_: float = 3.0,
    **style: Any,
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (left + round_, top + round_),
            right - left - 2 * round_,
            bottom - top - 2 * round_,
            boxstyle=f"round,pad={round_},rounding_size={round_}",
            facecolor=face,
            edgecolor=edge,
            linewidth=1.2,
            zorder=zorder,
            **style,
        )
    )


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str,
    bold: bool = False,
    italic: bool = False,
) -> None:
    axes.text(
        x, y, text, size=size, color=colour, va="center_baseline",
        weight="bold" if bold else "normal", style="italic" if italic else "normal",
    )  # fmt: skip


def _legend(plan: Plan, across: float) -> tuple[list[tuple[str, str, float, float]], float]:
    """Kind, text and place of each entry; height of all."""
    used = {e.action.resident for e in plan.events if isinstance(e.action, Run)}
    entries = [("run", name) for name in plan.graph.residents if name in used]
    if None in used:
        entries.append(("run", "pure function"))
    words = {"ahead": "next step's batch", "sync": "weight sync", "wake": "wake", "sleep": "sleep"}
    kinds = {_kind(event) for event in plan.events}
    entries += [(kind, text) for kind, text in words.items() if kind in kinds]
    placed = []
    x = y = 0.0
    for kind, text in entries:
        taken = 24 + width(text, SMALL)
        if x and x + taken > across:
            x, y = 0.0, y + 17
        placed.append((kind, text, x, y))
        x += taken + 18
    return placed, y + 20


def _swatch(axes: Axes, x: float, y: float, kind: str, colour: Colours) -> None:
    _shape(axes, x, y - 6, x + 18, y + 6, kind, colour)


def _wrapped(text: str, across: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if width(longer, _SMALLER) > across:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
