"""Weights from GPU to GPU, on vLLM's own weight-transfer API; no copy through the host.

``nccl`` broadcasts from the trainer's rank 0 to every sampler worker and wants them on
GPUs of their own: NCCL refuses two ranks on one device. ``ipc`` hands over CUDA memory
handles and wants the opposite: trainer ranks and sampler workers share the same GPUs of
one host, each device with exactly one of both.

On every trainer rank, once: ``link = open_link(...)``. After each update, again on every
rank (materialising a tensor may be a collective)::

    link.send(version)

The samplers must be built with ``VllmSampler(..., transfer=backend)``.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlgraph.engines.vllm_setup import Transfer

BUFFER = 256 << 20
"""Bytes that are handed over at a time, at least."""

Call = Callable[..., Any]
"""``call(method, *args, **kwargs)``: start a method of one sampler, give what to wait for."""

Wait = Callable[[Sequence[Any]], Any]
"""Wait for all of them, for a bounded time, and raise what went wrong."""


@dataclass(frozen=True)
class Described:
    """A tensor as vLLM wants it announced: the fields of its ``ParamMeta``."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


class Source:
    """A trainer's parameters as vLLM's ``WeightSource``: announced first, then streamed.

    ``described`` and the stream must agree in names, order, dtypes and shapes; the
    receiver sizes its buffers by what was announced. ``stream`` gives full tensors on
    the GPU, one at a time, afresh at each call, and is called on all ranks in lockstep.
    """

    def __init__(
        self,
        described: Sequence[Described],
        stream: Callable[[], Iterable[tuple[str, Tensor]]],
    ) -> None:
        self._described = list(described)
        self._stream = stream

    def metadata(self) -> list[Described]:
        """What iterating will give."""
        return self._described

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self._stream())


class Engines:
    """All sampler engines of a pool, as vLLM's ``VLLMWeightSyncClient``: driven as one.

    Only the trainer's rank 0 calls it.
    """

    def __init__(self, calls: Sequence[Call], wait: Wait, tensor_parallel: int = 1) -> None:
        self._calls = calls
        self._wait = wait
        self._width = tensor_parallel
        self.version = 0
        """Stamped on the engines when the next update ends."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Connect. Each engine's workers follow those of the engine before it in rank."""
        pending = []
        for number, call in enumerate(self._calls):
            own = dict(init_info)
            if "rank_offset" in own:
                # vLLM counts workers within one engine only, and would give all the same.
                own["rank_offset"] += number * self._width
            pending.append(call("receive", "init_weight_transfer_engine", init_info=own))
        self._wait(pending)

    def start_weight_update(self) -> None:
        """Get ready for new weights."""
        self._wait([call("receive", "start_weight_update") for call in self._calls])

    def update_weights(self, update_info: Any) -> None:
        """Receive what the trainer sends at the same time (nccl), or has laid out (ipc)."""
        calls = self._calls
        self._wait([call("receive", "update_weights", update_info=update_info) for call in calls])

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Sample from the new weights from now on."""
        self._wait([call("received", self.version) for call in self._calls])


class Link:
    """A trainer rank's end of the connection."""

    def __init__(self, end: Any, engines: Engines) -> None:
        self._end = end
        self._engines = engines

    def send(self, version: int) -> None:
        """Bring the samplers up to date. Every trainer rank takes part."""
        self._engines.version = version
        self._end.send_weights()

    def close(self) -> None:
        """Let go of communicators."""
        self._end.shutdown()


def open_link(
    backend: Transfer,
    source: Source,
    engines: Engines,
    *,
    rank: int,
    workers: int,
    address: str = "",
    port: int = 0,
) -> Link:
    """Connect a trainer rank with the samplers; every rank calls it.

    ``workers`` counts sampler workers over all engines. ``address`` and ``port`` are where
    rank 0 can be reached, and needed for nccl only. The current CUDA device is used.
    """
    from vllm.distributed.weight_transfer import WeightTransferTrainerFactory

    info: Any
    if backend == "nccl":
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        info = NCCLTrainerInitInfo(
            master_address=address, master_port=port, world_size=1 + workers, rank=rank
        )
    else:
        from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

        # Packed: one buffer instead of a second copy of the model. Each tensor must fit.
        largest = max(math.prod(t.shape) * t.dtype.itemsize for t in source.metadata())
        info = IPCTrainerInitInfo(
            packed=True, packed_buffer_size_bytes=max(largest, BUFFER), rank=rank
        )
    end = WeightTransferTrainerFactory.trainer_init(info, client=engines, source=source)  # type: ignore[arg-type]
    return Link(end, engines)
