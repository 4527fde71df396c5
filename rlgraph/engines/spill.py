"""Where the bytes of a sleeping engine are: on disk, or for a GPU in host memory."""

import ctypes
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, UntypedStorage


class Spill(Protocol):
    """Takes copies of storages; gives them back in the same order."""

    def write(self, storages: Sequence[UntypedStorage]) -> None:
        """Copy all of them. What fails here has changed nothing."""
        ...

    def read(self, storages: Sequence[UntypedStorage]) -> None:
        """Fill storages of the same sizes with the copies."""
        ...

    def close(self) -> None:
        """Let go of the copies."""
        ...


class FileSpill:
    """Copies in a file without a name: it is gone when this process is, however that ends."""

    def __init__(self, folder: Path) -> None:
        # Unbuffered: a buffer would still want to be written when the disk is full.
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def write(self, storages: Sequence[UntypedStorage]) -> None:
        """See :class:`Spill`."""
        for storage in storages:
            rest = _raw(storage)
            while rest:
                rest = rest[self._file.write(rest) :]

    def read(self, storages: Sequence[UntypedStorage]) -> None:
        """See :class:`Spill`."""
        self._file.seek(0)
        for storage in storages:
            rest = _raw(storage)
            while rest:
                count = self._file.readinto(rest)  # type: ignore[attr-defined]
                if not count:
                    raise OSError("the file ends early")
                rest = rest[count:]

    def close(self) -> None:
        """See :class:`Spill`."""
        self._file.close()


class HostSpill:
    """Copies in host memory, page-locked where the host allows: faster to copy."""

    def __init__(self) -> None:
        self._copies: list[Tensor] = []

    def write(self, storages: Sequence[UntypedStorage]) -> None:
        """See :class:`Spill`."""
        for storage in storages:
            copy = _host_memory(storage.nbytes())
            copy.copy_(_tensor(storage))
            self._copies.append(copy)

    def read(self, storages: Sequence[UntypedStorage]) -> None:
        """See :class:`Spill`."""
        for storage, copy in zip(storages, self._copies, strict=True):
            _tensor(storage).copy_(copy)

    def close(self) -> None:
        """See :class:`Spill`."""
        self._copies.clear()


def _host_memory(size: int) -> Tensor:
    try:
        return torch.empty(size, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
    except RuntimeError:
        # How much may be page-locked is limited.
        return torch.empty(size, dtype=torch.uint8)


def _raw(storage: UntypedStorage) -> memoryview:
    """Host memory as it is. (``Tensor.numpy`` would make the storage unfit for resizing.)"""
    if not storage.nbytes():
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())).cast(
        "B"
    )


def _tensor(storage: UntypedStorage) -> Tensor:
    """All of it, uint8."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)  # type: ignore[call-overload]
