"""Pictures of a graph: typed edges, nodes coloured by what they run on."""

from pathlib import Path

from rlgraph.draw.flowchart import mermaid
from rlgraph.errors import RlgraphError
from rlgraph.graph import Graph

__all__ = ["draw", "mermaid"]

_FORMATS = (".svg", ".png", ".pdf")


def draw(graph: Graph, path: Path) -> None:
    """Write a picture of ``graph``, as SVG, PNG or PDF by the ending of ``path``.

    Raises:
        RlgraphError: another ending, a missing folder, or matplotlib is not installed.
        GraphError: the graph is empty or has a cycle.
    """
    if path.suffix.lower() not in _FORMATS:
        raise RlgraphError(f"{path}: a picture ends in {', '.join(_FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise RlgraphError(f"{path}: there is no folder {path.parent}; make it first")
    try:
        from rlgraph.draw.picture import save
    except ImportError as error:
        raise RlgraphError(
            f"pictures need matplotlib and scipy ({error}): `pip install 'rlgraph[draw]'`; "
            "Mermaid, without -o, needs nothing"
        ) from error
    save(graph, path)
