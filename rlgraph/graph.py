"""The graph that a graph file builds: nodes, typed edges, and the checks on both."""

from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import networkx as nx

from rlgraph.errors import GraphError
from rlgraph.models import Handle, Resident
from rlgraph.types import EdgeType, Record
from rlgraph.wiring import call_site, check_edge, check_loss, check_role, play

if TYPE_CHECKING:
    from rlgraph.node import NodeFunction

_current: ContextVar["Graph | None"] = ContextVar("current_graph", default=None)


@dataclass(frozen=True, eq=False)
class Value:
    """What a node will give, or one field of it. Fields are attributes: ``rollout.group``."""

    node: "Node"
    type: EdgeType
    field: str | None = None

    def __str__(self) -> str:
        return f"{self.node.name}.{self.field}" if self.field else self.node.name

    def __getattr__(self, name: str) -> "Value":
        if name.startswith("__"):
            raise AttributeError(name)
        fields = self.type.fields() if isinstance(self.type, Record) else {}
        if name not in fields:
            has = f"its fields are {', '.join(fields)}" if fields else "it has no fields"
            raise GraphError(f"{call_site()}: {self} is {self.type} and has no '{name}'; {has}")
        return Value(self.node, fields[name], name)

    def __iter__(self) -> None:
        raise GraphError(f"{call_site()}: {self} is a graph value; it has no rows until it runs")

    def __bool__(self) -> bool:
        raise GraphError(
            f"{call_site()}: {self} is a graph value; its content is not known while the graph is "
            "built, so it cannot decide an if. Put the decision into a node"
        )


@dataclass(frozen=True, eq=False)
class Node:
    """One call of a node function in a graph."""

    graph: "Graph"
    name: str
    function: "NodeFunction"
    handle: Handle | None
    inputs: Mapping[str, Value]
    constants: Mapping[str, Any]
    where: str
    """The line of the graph file that made it."""

    @property
    def resident(self) -> Resident | None:
        """What it runs on; None for a pure function."""
        if self.handle is None or self.function.role is None:
            return None
        return play(self.handle, self.function.role)


@dataclass(eq=False)
class Graph:
    """A directed acyclic graph of nodes.

    Used as a context: node calls inside the block are recorded in it.
    """

    name: str
    nodes: dict[str, Node] = field(default_factory=dict)
    _tokens: list[Token["Graph | None"]] = field(default_factory=list, repr=False)

    def __enter__(self) -> "Graph":
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())

    @property
    def dag(self) -> nx.MultiDiGraph:
        """The nodes by name; an edge for each wired port, with its ``port`` and ``value``."""
        dag = nx.MultiDiGraph(name=self.name)
        dag.add_nodes_from(self.nodes)
        for node in self.nodes.values():
            for port, value in node.inputs.items():
                dag.add_edge(value.node.name, node.name, port=port, value=value)
        return dag

    def dependents(self, node: str) -> set[str]:
        """The names of all nodes that cannot run without this one."""
        return nx.descendants(self.dag, node)

    def ancestors(self, node: str) -> set[str]:
        """The names of all nodes that this one cannot run without."""
        return nx.ancestors(self.dag, node)

    def order(self) -> list[Node]:
        """The nodes, each after its inputs; ties in the order of the graph file.

        Raises:
            GraphError: the graph has no node, or a cycle.
        """
        if not self.nodes:
            raise GraphError(
                f"graph {self.name} is empty: call its nodes inside `with Graph(...) as graph:`"
            )
        dag = self.dag
        try:
            rank = {name: index for index, name in enumerate(self.nodes)}
            names = nx.lexicographical_topological_sort(dag, key=rank.__getitem__)
            return [self.nodes[name] for name in names]
        except nx.NetworkXUnfeasible:
            cycle = [edge[0] for edge in nx.find_cycle(dag)]
            raise GraphError(
                f"{self.nodes[cycle[0]].where}: graph {self.name} has a cycle: "
                f"{' -> '.join([*cycle, cycle[0]])}; only a policy's update may reach back, "
                "and only into the next step"
            ) from None

    @property
    def residents(self) -> dict[str, Resident]:
        """Everything that the nodes run on, by name.

        Raises:
            GraphError: two different residents share a name.
        """
        found: dict[str, Resident] = {}
        for node in self.nodes.values():
            resident = node.resident
            if resident is None:
                continue
            if found.setdefault(resident.name, resident) != resident:
                raise GraphError(
                    f"{node.where}: {node.name} uses a '{resident.name}' with other settings than "
                    "an earlier node; give the second one a name of its own"
                )
        return found

    def rewire(self, node: str, port: str, value: Value) -> None:
        """Let ``value`` go into ``port`` of the named node, in place of what did.

        This is how an algorithm is varied without copying its graph file.

        Raises:
            GraphError: the types do not fit, or the new edge closes a cycle.
        """
        if node not in self.nodes:
            raise GraphError(f"graph {self.name} has no node '{node}'; it has {list(self.nodes)}")
        old = self.nodes[node]
        ports = old.function.ports_for(old.constants)
        site = call_site()
        if port not in ports:
            raise GraphError(f"{site}: {node} has no port '{port}'; it has {', '.join(ports)}")
        check_edge(self, old.function.__name__, ports[port], value, site)
        constants = {name: given for name, given in old.constants.items() if name != port}
        new = replace(old, inputs={**old.inputs, port: value}, constants=constants)
        self.nodes[node] = new
        for name, other in self.nodes.items():
            inputs = {
                p: replace(v, node=new) if v.node is old else v for p, v in other.inputs.items()
            }
            self.nodes[name] = replace(other, inputs=inputs) if inputs != other.inputs else other
        self.order()


def record(
    function: "NodeFunction", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Value | None:
    """Add a call to the current graph; the value that stands for its result.

    Raises:
        GraphError: no graph is open, or an argument does not fit its port.
    """
    site, name = call_site(), function.__name__
    graph = _current.get()
    if graph is None:
        raise GraphError(f"{site}: {name} was called with a graph value outside `with Graph(...)`")
    try:
        arguments = function.bind(args, kwargs)
    except TypeError as error:
        raise GraphError(
            f"{site}: {name}: {error}; its ports are {', '.join(function.ports)}"
        ) from None
    typed = function.ports_for(arguments)
    inputs: dict[str, Value] = {}
    constants: dict[str, Any] = {}
    handle: Handle | None = None
    for argument, given in arguments.items():
        if argument not in typed:
            raise GraphError(f"{site}: {name} has no port '{argument}'; it has {', '.join(typed)}")
        port = typed[argument]
        if port.is_role:
            handle = check_role(name, port, given, site)
        elif isinstance(given, Value):
            check_edge(graph, name, port, given, site)
            inputs[argument] = given
        else:
            if fault := port.fault(given, {}):
                raise GraphError(f"{site}: {name}: '{argument}' takes {port}, {fault}")
            constants[argument] = given
    if function.forwards is not None:
        check_loss(name, arguments[function.forwards], handle, inputs, constants, site)
    count = sum(other.function.__name__ == name for other in graph.nodes.values())
    unique = name if not count else f"{name}_{count + 1}"
    node = Node(graph, unique, function, handle, inputs, constants, site)
    graph.nodes[unique] = node
    return None if function.result is None else Value(node, function.result)
