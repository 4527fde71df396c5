"""Pictures of a graph: typed edges, nodes coloured by what they run on. And of a plan."""

from pathlib import Path

from rlgraph.draw.flowchart import mermaid
from rlgraph.errors import RlgraphError
from rlgraph.graph import Graph
from rlgraph.scheduling.plan import Plan

__all__ = ["draw", "draw_plan", "mermaid"]

_FORMATS = (".svg", ".png", ".pdf")


def draw(graph: Graph, path: Path) -> None:
    """Write a picture of ``graph``, as SVG, PNG or PDF by the ending of ``path``.

    Raises:
        RlgraphError: another ending, a missing folder, or matplotlib is not installed.
        GraphError: the graph is empty or has a cycle.
    """
    _check(path)
    try:
        from rlgraph.draw.picture import save
    except ImportError as error:
        raise _missing(error, "; Mermaid, without -o, needs nothing") from error
    save(graph, path)


def draw_plan(plan: Plan, path: Path) -> None:
    """Write a plan as a timeline, as SVG, PNG or PDF by the ending of ``path``.

    Raises:
        RlgraphError: another ending, a missing folder, or matplotlib is not installed.
    """
    _check(path)
    try:
        from rlgraph.draw.timeline import save
    except ImportError as error:
        raise _missing(error, "; `rlgraph.run --plan` prints a table and needs nothing") from error
    save(plan, path)


def _check(path: Path) -> None:
    if path.suffix.lower() not in _FORMATS:
        raise RlgraphError(f"{path}: a picture ends in {', '.join(_FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise RlgraphError(f"{path}: there is no folder {path.parent}; make it first")


def _missing(error: ImportError, instead: str) -> RlgraphError:
    return RlgraphError(
        f"pictures need matplotlib and scipy ({error}): `pip install 'rlgraph[draw]'`{instead}"
    )
