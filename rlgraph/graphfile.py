"""Graph files: Python files with a ``build(config) -> Graph``, wherever they lie."""

import dataclasses
import importlib
import importlib.util
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rlgraph.errors import GraphError
from rlgraph.graph import Graph
from rlgraph.sourcefile import import_file
from rlgraph.types import hints_of

_PACKAGED = "rlgraph.graphs"
_OWN = "graph_file_"
"""Before the module name of a file that belongs to no package."""


@dataclass(frozen=True)
class GraphFile:
    """A loaded graph file."""

    name: str
    where: str
    summary: str
    """Its docstring."""
    config_type: type[Any]
    """The dataclass that ``build`` takes; command-line flags come from it."""
    _build: Callable[[Any], Any]

    def build(self, config: Any) -> Graph:
        """The graph for these settings.

        Raises:
            GraphError: the graph is put together wrongly, is empty, or is no graph.
        """
        graph = self._build(config)
        if not isinstance(graph, Graph):
            raise GraphError(
                f"{self.where}: build() returned {type(graph).__name__}, not a Graph; "
                "end it with `return graph`"
            )
        try:
            graph.order()
        except GraphError as error:
            # An empty graph has no node that would name the file.
            raise error if graph.nodes else GraphError(f"{self.where}: {error}") from None
        return graph


def load_graph_file(target: str) -> GraphFile:
    """Load ``graphs/grpo.py``, a file anywhere else, or a dotted module name.

    Raises:
        GraphError: there is no such file or module, it cannot be imported, or it has no
            usable ``build``.
    """
    module = _import(target)
    where = str(module.__file__)
    build = getattr(module, "build", None)
    if not callable(build):
        raise GraphError(
            f"{where}: there is no build(); a graph file needs `def build(config: Config) -> Graph`"
        )
    try:
        hints = {name: hint for name, hint in hints_of(build).items() if name != "return"}
    except NameError as error:
        raise GraphError(
            f"{where}:{build.__code__.co_firstlineno}: the annotations of build() cannot be "
            f"read: {error}; import what they name"
        ) from None
    config_type = next(iter(hints.values()), None)
    if (
        len(hints) != 1
        or not isinstance(config_type, type)
        or not dataclasses.is_dataclass(config_type)
    ):
        raise GraphError(
            f"{where}:{build.__code__.co_firstlineno}: build() must take one parameter that is "
            "annotated with a dataclass: `def build(config: Config) -> Graph`"
        )
    name = module.__name__.rpartition(".")[2].removeprefix(_OWN)
    return GraphFile(name, where, (module.__doc__ or "").strip(), config_type, build)


def _import(target: str) -> ModuleType:
    path = Path(target).expanduser()
    if path.suffix != ".py":
        return _import_module(target)
    if not path.is_file():
        known = importlib.util.find_spec(f"{_PACKAGED}.{path.stem}")
        hint = f"; the one that comes with rlgraph is {_PACKAGED}.{path.stem}" if known else ""
        raise GraphError(f"{target}: no such file{hint}")
    packaged = importlib.util.find_spec(f"{_PACKAGED}.{path.stem}")
    if packaged and packaged.origin and Path(packaged.origin).samefile(path):
        return _import_module(packaged.name)
    return _import_file(path.resolve())


def _import_module(target: str) -> ModuleType:
    try:
        found = importlib.util.find_spec(target)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise GraphError(f"{target}: neither a .py file nor a module that can be imported")
    try:
        return importlib.import_module(target)
    except Exception as error:
        raise _broken(target, error) from error


def _import_file(path: Path) -> ModuleType:
    """Import under a name of its own, so that no installed module is shadowed."""
    try:
        return import_file(path, f"{_OWN}{path.stem}")
    except Exception as error:
        raise _broken(str(path), error) from error


def _broken(target: str, error: Exception) -> GraphError:
    if isinstance(error, GraphError):
        return error
    # Without the frames of the import machinery: the user's own come last.
    text = "".join(traceback.format_exception(error, limit=-3))
    return GraphError(f"{target}: importing it fails; mend the file:\n{text}")
