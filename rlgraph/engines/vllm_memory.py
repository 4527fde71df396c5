"""The memory of one vLLM worker: how much it holds, giving it back, taking it again.

On a GPU that is the work of vLLM's own allocator, and only what it leaves half done is
put right here. On a CPU vLLM has nothing of the kind.
"""

from typing import Any, Literal

import torch
from torch import UntypedStorage, nn

from rlgraph.engines.occupancy import MIB, available, give_back, occupied
from rlgraph.engines.storages import own, storages_of, total
from rlgraph.errors import EngineError

Part = Literal["weights", "kv_cache"]

CPU = torch.device("cpu")


class WorkerMemory:
    """What the sampler asks of a worker about its memory; see :class:`WorkerExtension`."""

    model_runner: Any

    graph_away: dict[Part, list[tuple[UntypedStorage, int]]]
    """On a CPU: what was given back, and the bytes that it had."""

    def graph_bytes(self) -> dict[Part, int]:
        """Bytes that are held now, for weights and for the KV cache."""
        if torch.cuda.is_available():
            return _pool_bytes()
        model = self.model_runner.get_model()
        weights = total(storages_of(list(model.parameters()), device=CPU)) + _packed_bytes(model)
        cache = total(storages_of(list(self.model_runner.kv_caches), device=CPU))
        return {"weights": weights, "kv_cache": cache}

    def graph_occupied(self) -> int:
        """Bytes taken now, as the system counts them."""
        return occupied(_device())

    def graph_free(self, part: Part) -> None:
        """On a CPU: give one part's memory back, with all that is in it. Nothing may run."""
        if part == "weights":
            model = self.model_runner.get_model()
            for module in _packed(model):
                # Nothing else holds the packed copy.
                del module.cpu_linear
            tensors = list(model.parameters())
        else:
            tensors = list(self.model_runner.kv_caches)
        own(tensors, device=CPU)
        # What is away already has no bytes, and its size is on the list.
        held = [storage for storage in storages_of(tensors, device=CPU) if storage.nbytes()]
        away = [(storage, storage.nbytes()) for storage in held]
        self.__dict__.setdefault("graph_away", {}).setdefault(part, []).extend(away)
        for storage, _ in away:
            storage.resize_(0)
        give_back(CPU)

    def graph_take(self, part: Part) -> None:
        """On a CPU: have one part's memory again, zeroed; layers see the same tensors.

        Raises:
            EngineError: there is not enough; nothing was taken.
        """
        away = self.__dict__.get("graph_away", {}).get(part, [])
        wanted, free = sum(size for _, size in away), available(CPU)
        try:
            if wanted > free:
                raise EngineError("not enough memory")
            for storage, size in away:
                storage.resize_(size)
        except (EngineError, RuntimeError) as error:
            for storage, _ in away:
                storage.resize_(0)
            raise EngineError(
                f"{wanted // MIB} MiB wanted, {free // MIB} MiB available: {error}"
            ) from error
        for storage, _ in away:
            storage.fill_(0)
        away.clear()

    def graph_rouse(self) -> None:
        """On a GPU: undo a sleep that failed half-way."""
        _pool().wake_up(None)

    def graph_drop_off(self, part: Part, keep: bool) -> None:
        """On a GPU: undo a wake that failed half-way; ``keep``: with what was in it."""
        if keep:
            _pool().sleep(offload_tags=("weights", "runtime", "cudagraph"))
        else:
            _pool().discard((part,))


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _packed(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "cpu_linear")]


def _packed_bytes(model: nn.Module) -> int:
    """The copies of linear layers' weights that the kernels compute with."""
    count = 0
    for module in _packed(model):
        # Plain torch as the kernel has none: it refers to nothing.
        if getattr(module.cpu_linear, "__closure__", None):
            rows, columns = weight_shape(module)
            count += rows * columns * module.weight.dtype.itemsize
    return count


def weight_shape(module: Any) -> tuple[int, int]:
    """``[out in]`` of a linear layer, also of one that only has its packed copy."""
    if module.weight.numel():
        return module.weight.shape[0], module.weight.shape[1]
    return module.output_size_per_partition, module.input_size_per_partition


def _pool() -> Any:
    from vllm.device_allocator.cumem import CuMemAllocator

    return CuMemAllocator.get_instance()


def _pool_bytes() -> dict[Part, int]:
    """What vLLM's sleep allocator has mapped on this worker's GPU, by tag."""
    held: dict[Any, int] = {"weights": 0, "kv_cache": 0}
    for data in _pool().pointer_to_data.values():
        if not data.is_asleep:
            held[data.tag] = held.get(data.tag, 0) + data.handle[1]
    return held
