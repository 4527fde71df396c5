"""Putting a whole vLLM engine, all its workers, to sleep and waking it part by part."""

from typing import Any

import torch

from rlgraph.engines.occupancy import unfreed
from rlgraph.engines.vllm_memory import Part
from rlgraph.errors import EngineError


class EngineMemory:
    """The memory of an engine's workers. Whoever asks has seen to it that nothing runs."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self._on_gpu = torch.cuda.is_available()
        self._kept = True
        """Are a sleeping engine's weights somewhere?"""

    def held(self) -> dict[Part, int]:
        """Bytes per device that each part holds now, measured; the fullest device counts."""
        held: list[dict[Part, int]] = self._llm.collective_rpc("graph_bytes")
        return {part: max(worker[part] for worker in held) for part in held[0]}

    def sleep(self, *, keep_weights: bool) -> None:
        """Give back the KV cache, and the weights: to host memory, or they are dropped.

        On a CPU kept weights stay where they are.

        Raises:
            EngineError: that fails, or little became free. The engine has to be woken.
        """
        held, before = sum(self.held().values()), self._llm.collective_rpc("graph_occupied")
        if self._on_gpu:
            self._sleep_on_gpu(keep_weights)
        else:
            self._llm.collective_rpc("graph_free", args=("kv_cache",))
            if not keep_weights:
                self._llm.collective_rpc("graph_free", args=("weights",))
        self._kept = keep_weights
        expected = held - sum(self.held().values())
        device = torch.device("cuda" if self._on_gpu else "cpu")
        after = self._llm.collective_rpc("graph_occupied")
        for rank, (less, more) in enumerate(zip(before, after, strict=True)):
            if problem := unfreed(expected, less, more, device):
                raise EngineError(f"sleep: worker {rank} of the vLLM engine: {problem}")

    def _sleep_on_gpu(self, keep_weights: bool) -> None:
        try:
            # Parts that sleep already are passed over.
            self._llm.sleep(level=1 if keep_weights else 2)
        except Exception as error:
            # vLLM does not know that a part sleeps, and would not wake it.
            self._llm.collective_rpc("graph_rouse")
            raise EngineError(f"sleep: the vLLM engine: {error}") from error

    def wake(self, part: Part) -> None:
        """Take one part's memory again.

        Raises:
            EngineError: there is not enough. The part then sleeps on.
        """
        try:
            if self._on_gpu:
                self._llm.wake_up(tags=[part])
            else:
                self._llm.collective_rpc("graph_take", args=(part,))
        except Exception as error:
            # What some workers have taken already is given back on a GPU; on a CPU it is
            # theirs the next time.
            if self._on_gpu:
                keep = self._kept and part == "weights"
                self._llm.collective_rpc("graph_drop_off", args=(part, keep))
            raise EngineError(f"wake: the vLLM engine's {part} sleep on: {error}") from error
