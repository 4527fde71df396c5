"""How values cross between processes: as numpy arrays.

Ray's object store hands numpy arrays over without a copy, which it does not do
for torch tensors. Whoever unpacks owns the result: it is copied out of the
read-only shared memory, so that a node may write to its inputs.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorClass
from torch import Tensor

from rlgraph.engines.protocols import Weights
from rlgraph.types import Record

Index = np.ndarray | None


@dataclass(frozen=True)
class PackedTensor:
    """A tensor as a numpy array; numpy has no bfloat16, so the dtype stands beside it."""

    array: np.ndarray
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: Tensor) -> "PackedTensor":
        """A view of a CPU tensor, or a copy of one that lives elsewhere."""
        dense = tensor.detach().cpu().contiguous()
        if dense.dtype is torch.bfloat16:
            return cls(dense.view(torch.int16).numpy(), torch.bfloat16)
        return cls(dense.numpy(), dense.dtype)

    def unpack(self, rows: Index = None) -> Tensor:
        """A tensor of its own memory: all of it, or the given rows."""
        array = self.array.copy() if rows is None else self.array[rows]
        return torch.from_numpy(array).view(self.dtype)


@dataclass(frozen=True)
class PackedRecord:
    """A record as arrays and lists by field."""

    record: type[TensorClass]
    arrays: dict[str, PackedTensor]
    lists: dict[str, list[Any]]
    rows: int

    @classmethod
    def of(cls, record: TensorClass) -> "PackedRecord":
        """Pack every field."""
        tensors = Record(type(record)).fields()
        arrays = {name: PackedTensor.of(getattr(record, name)) for name in tensors}
        # By declared type: a tensorclass turns an empty list into an empty tensor.
        names = [name for name in type(record).__dataclass_fields__ if name not in tensors]
        lists = {name: list(getattr(record, name)) for name in names}
        return cls(type(record), arrays, lists, len(record))

    def unpack(self, rows: Index = None) -> TensorClass:
        """The record: all of it, or the given rows."""
        arrays = {name: packed.unpack(rows) for name, packed in self.arrays.items()}
        lists = {
            name: list(entries) if rows is None else [entries[i] for i in rows]
            for name, entries in self.lists.items()
        }
        count = self.rows if rows is None else len(rows)
        fields: dict[str, Any] = {**arrays, **lists, "batch_size": [count]}
        return self.record(**fields)


Packed = PackedTensor | PackedRecord


def pack(value: Tensor | TensorClass) -> Packed:
    """Ready for the object store."""
    return PackedTensor.of(value) if isinstance(value, Tensor) else PackedRecord.of(value)


def field_of(packed: Packed, field: str | None) -> Packed:
    """One field of a packed record, or the whole."""
    if field is None:
        return packed
    assert isinstance(packed, PackedRecord), "only records have fields; the graph checked it"
    return packed.arrays[field]


def pack_weights(weights: Weights) -> dict[str, Any]:
    """A model's parameters, ready for the object store."""
    tensors = {name: PackedTensor.of(tensor) for name, tensor in weights.tensors.items()}
    return {"version": weights.version, "tensors": tensors}


def unpack_weights(packed: dict[str, Any]) -> Weights:
    """Parameters that still lie in shared memory: to be read, never written."""
    with warnings.catch_warnings():
        # torch warns that writing to a read-only array is undefined; nobody writes.
        warnings.simplefilter("ignore", UserWarning)
        tensors = {
            name: torch.from_numpy(entry.array).view(entry.dtype)
            for name, entry in packed["tensors"].items()
        }
    return Weights(packed["version"], tensors)
