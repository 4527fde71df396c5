"""Sleep and wake: an engine gives its memory back, and takes it again, bit for bit."""

import shutil
from pathlib import Path

import torch

from rlgraph.engines.occupancy import MIB, available, give_back, occupied, settle, unfreed
from rlgraph.engines.spill import FileSpill, HostSpill, Spill
from rlgraph.engines.storages import movable, own, storages_of, total
from rlgraph.errors import EngineError


class Holdings:
    """What an engine keeps on its device: weights, gradients, optimizer states.

    Asleep, it is on disk (CPU) or in host memory (GPU). The order of the steps makes
    failures harmless: all is copied before anything is freed, and all is allocated
    before anything is copied back.
    """

    def __init__(self, name: str, *roots: object, device: torch.device, scratch: Path) -> None:
        """``name`` is for errors; ``roots`` lead to all tensors; ``scratch`` is on local disk."""
        self._name = name
        self._roots = roots
        self._device = device
        self._scratch = scratch
        self._spill: Spill | None = None
        self._away: list[tuple[torch.UntypedStorage, int]] = []

    @property
    def asleep(self) -> bool:
        """Is the memory given back?"""
        return self._spill is not None

    @property
    def bytes_held(self) -> int:
        """Bytes on the device now, measured."""
        return total(storages_of(*self._roots, device=self._device))

    def require_awake(self, action: str) -> None:
        """Raise an EngineError if asleep: tensors have no memory that could be read."""
        if self.asleep:
            raise EngineError(f"{action}: {self._name} is asleep; it must be awake")

    def sleep(self) -> None:
        """Give the memory back, once running work is done; nothing happens if asleep already.

        Raises:
            EngineError: there is no room for the copies, or nothing became free. The
                engine is then awake, as it was.
        """
        if self.asleep:
            return
        settle(self._device)
        storages, spill = self._write()
        held, before = self.bytes_held, occupied(self._device)
        # From here on it counts as asleep, so that waking undoes whatever interrupts this.
        self._away = [(storage, storage.nbytes()) for storage in storages]
        self._spill = spill
        for storage in storages:
            storage.resize_(0)
        give_back(self._device)
        if problem := unfreed(held, before, occupied(self._device), self._device):
            self.wake()
            raise EngineError(f"sleep: {self._name}: {problem}")

    def wake(self) -> None:
        """Take the memory again, with what was in it; nothing happens if awake.

        Raises:
            EngineError: there is not enough. The engine is then asleep, and can be
                woken later.
        """
        if self._spill is None:
            return
        wanted, free = sum(size for _, size in self._away), available(self._device)
        if wanted > free:
            # The host would hand it out, and end some process when it is used.
            raise self._not_woken(wanted, free, "not enough memory")
        try:
            for storage, size in self._away:
                storage.resize_(size)
            self._spill.read([storage for storage, _ in self._away])
        except BaseException as error:
            for storage, _ in self._away:
                storage.resize_(0)
            give_back(self._device)
            if isinstance(error, RuntimeError | OSError):
                raise self._not_woken(wanted, free, error) from error
            raise
        settle(self._device)
        self._spill.close()
        self._spill, self._away = None, []

    def _write(self) -> tuple[list[torch.UntypedStorage], Spill]:
        """Copies of all that can be moved; if one fails, of nothing."""
        spill: Spill | None = None
        try:
            own(*self._roots, device=self._device)
            reached = storages_of(*self._roots, device=self._device)
            storages = [storage for storage in reached if movable(storage)]
            spill = HostSpill() if self._device.type == "cuda" else FileSpill(self._scratch)
            spill.write(storages)
        except BaseException as error:
            if spill is not None:
                spill.close()
            if isinstance(error, RuntimeError | OSError):
                raise EngineError(
                    f"sleep: {self._name} has {self.bytes_held // MIB} MiB to put "
                    f"{self._where()}: {error}"
                ) from error
            raise
        return storages, spill

    def _where(self) -> str:
        if self._device.type == "cuda":
            free = available(torch.device("cpu"))
            return f"into host memory, {free // MIB} MiB are free"
        folder = self._scratch
        if not folder.is_dir():
            return f"into {folder}, which is no folder"
        return f"into a file in {folder}, {shutil.disk_usage(folder).free // MIB} MiB are free"

    def _not_woken(self, wanted: int, free: int, reason: object) -> EngineError:
        return EngineError(
            f"wake: {self._name} wants {wanted // MIB} MiB, {free // MIB} MiB are available: "
            f"{reason}; it is still asleep"
        )


class Sleepable:
    """An engine that can sleep: whoever inherits sets ``_holdings``."""

    _holdings: Holdings

    @property
    def asleep(self) -> bool:
        """Is memory given back, so that nothing can be computed?"""
        return self._holdings.asleep

    @property
    def bytes_held(self) -> int:
        """Bytes on this process's device for weights, gradients and optimizer, measured."""
        return self._holdings.bytes_held

    def sleep(self) -> None:
        """Give the memory back; see :meth:`Holdings.sleep`."""
        self._holdings.sleep()

    def wake(self) -> None:
        """Take it again, unchanged; see :meth:`Holdings.wake`."""
        self._holdings.wake()
