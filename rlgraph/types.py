"""The types of edges and ports, read from annotations.

Four kinds exist: arrays (jaxtyping's ``Float[Tensor, "batch seq"]``), records
(:mod:`rlgraph.records`), roles that a model plays (:mod:`rlgraph.engines.protocols`
or any class that keeps a state), and constants (everything else).
"""

import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

import typeguard
from jaxtyping import AbstractArray
from tensordict import TensorClass
from torch import Tensor


@dataclass(frozen=True)
class Array:
    """A tensor with named dimensions: ``batch`` is the row, ``seq`` may be padded."""

    dtype: str
    dtypes: frozenset[str]
    dims: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{' '.join(self.dims)}]"

    def takes(self, other: "EdgeType") -> bool:
        """Can a value of type ``other`` be wired here? Dimension names must agree."""
        return isinstance(other, Array) and other.dtypes <= self.dtypes and other.dims == self.dims

    def fault(self, value: Any, sizes: dict[str, int]) -> str | None:
        """What is wrong with ``value``, if anything; ``sizes`` binds names to sizes."""
        if not isinstance(value, Tensor):
            return f"got {type(value).__name__}"
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in self.dtypes or value.dim() != len(self.dims):
            return f"got {dtype}{list(value.shape)}"
        for dim, size in zip(self.dims, value.shape, strict=True):
            expected = int(dim) if dim.isdigit() else sizes.setdefault(dim, size)
            if size != expected:
                return f"got {dtype}{list(value.shape)}, but {dim} is {expected} elsewhere"
        return None


@dataclass(frozen=True)
class Record:
    """A :class:`TensorClass`; its fields can be wired one by one."""

    record: type[TensorClass]

    def __str__(self) -> str:
        return self.record.__name__

    def takes(self, other: "EdgeType") -> bool:
        """A record of the same class, or of one derived from it."""
        return isinstance(other, Record) and issubclass(other.record, self.record)

    def fault(self, value: Any, sizes: dict[str, int]) -> str | None:
        """What is wrong with ``value``, if anything; ``sizes`` binds names to sizes."""
        if not isinstance(value, self.record):
            return f"got {type(value).__name__}"
        if len(value) != (batch := sizes.setdefault("batch", len(value))):
            return f"got {len(value)} rows, but batch is {batch} elsewhere"
        return None

    def fields(self) -> Mapping[str, Array]:
        """The types of the fields that can be wired singly: the arrays among them."""
        return _fields_of(self.record)  # type: ignore[arg-type]


@functools.cache
def _fields_of(record: type[TensorClass]) -> Mapping[str, Array]:
    kinds = {name: alternatives(hint)[0] for name, hint in hints_of(record).items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, Array)}


@dataclass(frozen=True)
class Role:
    """What a port asks of a model: a protocol, or a class that keeps a state."""

    role: type

    def __str__(self) -> str:
        return self.role.__name__


@dataclass(frozen=True)
class Constant:
    """Anything that is fixed when the graph is built."""

    annotation: Any

    def __str__(self) -> str:
        return getattr(self.annotation, "__name__", str(self.annotation))

    def takes(self, other: "EdgeType") -> bool:
        """Never: constants do not travel along edges."""
        return False

    def fault(self, value: Any, sizes: dict[str, int]) -> str | None:
        """What is wrong with ``value``, if anything."""
        try:
            typeguard.check_type(value, self.annotation)
        except typeguard.TypeCheckError:
            return f"got {value!r}"
        return None


EdgeType = Array | Record
"""What an edge can carry."""

PortType = Array | Record | Role | Constant


def alternatives(annotation: Any) -> tuple[PortType, ...]:
    """The types that an annotation allows: one, or several for a union."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        found = tuple(kind for part in typing.get_args(annotation) for kind in alternatives(part))
        if all(isinstance(kind, Constant) for kind in found):
            return (Constant(annotation),)
        return found
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        dims = tuple(annotation.dim_str.split())
        return (Array(annotation.dtype.__name__, frozenset(annotation.dtypes), dims),)
    if isinstance(annotation, type) and issubclass(annotation, TensorClass):
        return (Record(annotation),)
    if isinstance(annotation, type) and is_role(annotation):
        return (Role(annotation),)
    return (Constant(annotation),)


def is_role(annotation: type) -> bool:
    """Roles are protocols, and classes whose objects keep a state between steps."""
    return getattr(annotation, "_is_protocol", False) or hasattr(annotation, "load_state_dict")


def hints_of(target: Any) -> dict[str, Any]:
    """Resolved annotations, also under ``from __future__ import annotations``."""
    return typing.get_type_hints(target)


def describe(kinds: tuple[PortType, ...]) -> str:
    """Port types for a message: ``Rewards`` or ``Float[batch] or None``."""
    return " or ".join("None" if str(kind) == "NoneType" else str(kind) for kind in kinds)
