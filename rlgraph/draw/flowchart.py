"""A graph as a Mermaid flowchart: text that GitHub and many editors show as a picture."""

from rlgraph.draw.colours import PURE, Colours, colours_of
from rlgraph.draw.scene import Arrow, scene_of, title
from rlgraph.graph import Graph


def mermaid(graph: Graph) -> str:
    """The Mermaid source of ``graph``.

    Each node names its resident, and has its colour; edges name their types.

    Raises:
        GraphError: the graph is empty or has a cycle.
    """
    scene = scene_of(graph)
    colours = colours_of(scene.residents)
    lines = ["flowchart TD"]
    classes = {resident.name: f"r{index}" for index, resident in enumerate(scene.residents)}
    for box in scene.boxes:
        on = (title(box.resident),) if box.resident is not None else ()
        text = "<br>".join([f"<b>{_escape(box.name)}</b>", *map(_escape, (*box.notes, *on))])
        style = classes[box.resident.name] if box.resident is not None else "pure"
        lines.append(f'    {_id(box.name)}["{text}"]:::{style}')
    lines += [_edge(arrow, "-->") for arrow in scene.arrows]
    lines += [_edge(arrow, "-.->") for arrow in scene.back]
    lines += [_style(classes[name], colour) for name, colour in colours.items()]
    lines.append(_style("pure", PURE))
    return "\n".join(lines) + "\n"


def _id(name: str) -> str:
    # A prefix, because words such as "end" break a flowchart.
    return f"n_{name}"


def _edge(arrow: Arrow, line: str) -> str:
    text = "<br>".join(map(_escape, arrow.lines))
    return f'    {_id(arrow.source)} {line}|"{text}"| {_id(arrow.target)}'


def _style(name: str, colours: Colours) -> str:
    return f"    classDef {name} fill:{colours.fill},stroke:{colours.line},color:#1f2328"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
