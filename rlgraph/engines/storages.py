"""Which memory an engine's tensors lie in.

A storage is what tensors are views of. Emptied and filled again in place, it leaves
every view valid: tied weights stay tied, and DeepSpeed's slices of its flat buffers
stay slices of them.
"""

import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, UntypedStorage

CLOSED = (types.ModuleType, type, types.FunctionType, types.MethodType, weakref.ref, UntypedStorage)
"""Things that lead out of an engine, or that hold no tensors."""


def tensors_of(*roots: object, device: torch.device) -> list[Tensor]:
    """Every dense tensor on a device of this type that can be reached from ``roots``, once.

    Followed are attributes, slots, containers, and what hangs on a tensor: its gradient
    and the attributes that ZeRO stage 3 puts there. An optimizer's state is keyed by
    parameters, so keys count too.
    """
    found: list[Tensor] = []
    seen: dict[int, object] = {}
    waiting = list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, CLOSED) or _is_group(thing):
            continue
        # Kept, or its id could be given to another object meanwhile.
        seen[id(thing)] = thing
        if (
            isinstance(thing, Tensor)
            and thing.layout == torch.strided
            and thing.device.type == device.type
        ):
            found.append(thing)
        waiting.extend(_parts(thing))
    return found


def storages_of(*roots: object, device: torch.device) -> list[UntypedStorage]:
    """The storages of :func:`tensors_of`, each once."""
    return list(_by_storage(tensors_of(*roots, device=device)))


def _by_storage(tensors: Iterable[Tensor]) -> dict[UntypedStorage, list[Tensor]]:
    storages: dict[int, UntypedStorage] = {}
    views: dict[UntypedStorage, list[Tensor]] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        # One storage has many Python objects.
        views.setdefault(storages.setdefault(storage._cdata, storage), []).append(tensor)
    return views


def _parts(thing: object) -> Iterator[object]:
    if isinstance(thing, dict):
        yield from thing
        yield from thing.values()
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        yield from thing
    elif isinstance(thing, Tensor) and thing.is_leaf:
        yield thing.grad
    yield from getattr(thing, "__dict__", {}).values()
    for kind in type(thing).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if isinstance(kind.__dict__.get(name), types.MemberDescriptorType):
                yield getattr(thing, name, None)


def _is_group(thing: object) -> bool:
    distributed = torch.distributed
    return distributed.is_available() and isinstance(thing, distributed.ProcessGroup)


def movable(storage: UntypedStorage) -> bool:
    """Can its memory be given back and taken again? Not what other processes see too."""
    return storage.resizable() and not _is_shared(storage)


def _is_shared(storage: UntypedStorage) -> bool:
    # torch says that of everything on a GPU.
    return storage.device.type == "cpu" and storage.is_shared()


def total(storages: Iterable[UntypedStorage]) -> int:
    """Bytes that they take."""
    return sum(storage.nbytes() for storage in storages)


def own(*roots: object, device: torch.device) -> None:
    """Move tensors whose memory cannot be given back into memory of their own.

    That is so for weights that lie in a mapped checkpoint, and for whatever was once
    seen through ``Tensor.numpy``, as when it was sent to another process.
    """
    for storage, views in _by_storage(tensors_of(*roots, device=device)).items():
        if not storage.resizable() and not _is_shared(storage):
            copy = storage.clone()
            for view in views:
                place = view.storage_offset(), view.size(), view.stride()
                view.data = torch.empty(0, dtype=view.dtype, device=view.device).set_(copy, *place)
