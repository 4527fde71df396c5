"""Sampling with vLLM: continuous batching, on CPU and on GPUs."""

import os
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from rlgraph.engines.checksum import checksums, compare, compare_shapes
from rlgraph.engines.protocols import Weights
from rlgraph.engines.vllm_memory import Part
from rlgraph.engines.vllm_rollout import assemble
from rlgraph.engines.vllm_setup import Transfer, end, load_llm, longest_sequence
from rlgraph.engines.vllm_sleep import EngineMemory
from rlgraph.errors import EngineError
from rlgraph.records import Prompts, Rollout
from rlgraph.settings import PolicyConfig, RunContext
from rlgraph.training.model import checkpoint_tensors

State = Literal["awake", "weights awake", "asleep", "failed", "closed"]

SHARED_MEMORY = Path("/dev/shm")

LIVE: weakref.WeakSet["VllmSampler"] = weakref.WeakSet()
"""Engines of this process that are not closed."""


class VllmSampler:
    """Samples from its own copy of the weights, in this process.

    A tensor-parallel engine has a worker process per device besides. A row's random
    numbers depend on the seed, the weights' version, its prompt's group and length,
    and which of the group's samples it is: never on the other rows, so prompts can be
    split over engines in any way.

    It sleeps and wakes in this order, and refuses any other::

        awake -> asleep -> weights awake -> (load_weights) -> awake
    """

    def __init__(
        self, policy: PolicyConfig, context: RunContext, *, transfer: Transfer | None = None
    ) -> None:
        self._policy = policy
        self._context = context
        self._state: State = "closed"
        self._llm: Any = load_llm(policy, context.seed, transfer)
        self._state = "awake"
        LIVE.add(self)
        self._stale = False
        """Were the weights thrown away in sleep, and none loaded since?"""
        self._version = 0
        self._max_len = longest_sequence(policy)
        self._shapes: dict[str, torch.Size] | None = None
        self._tokenizer = self._llm.get_tokenizer()
        self.dtype: torch.dtype = self._llm.model_config.dtype
        self._memory = EngineMemory(self._llm)
        self.bytes_awake = self.bytes_held
        """Bytes per device for weights and KV cache, measured."""
        self.bytes_asleep = 0 if torch.cuda.is_available() else self._memory.held()["weights"]
        """The same, asleep: on CPU the weights stay where they are, if they are kept."""

    def generate(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
    ) -> Rollout:
        """``samples`` rows a prompt, side by side, in prompt order; tensors on CPU.

        None means the policy's own setting. ``temperature=0`` is greedy; its
        log-probabilities are 0. A response ends at the latest where the row has
        ``max_model_len`` tokens, and then counts as truncated.

        Raises:
            EngineError: the engine is not awake; a prompt is empty, has tokens that the
                model does not know, or leaves no room for a response.
        """
        self._check("generate", "awake")
        self._check_weights("generate")
        settings = self._policy.sampler
        heat = self._policy.temperature if temperature is None else temperature
        longest = settings.max_new_tokens if max_new_tokens is None else max_new_tokens
        # vLLM silently raises temperatures in between to 0.01.
        if samples < 1 or longest < 1 or not (heat == 0 or heat >= 0.01):
            raise EngineError(
                f"cannot generate samples={samples}, max_new_tokens={longest}, "
                f"temperature={heat}: counts must be positive, temperature 0 or at least 0.01"
            )
        texts = self._texts(prompts)
        answers = self._sample(prompts, texts, samples, heat, longest) if texts else []
        return assemble(prompts, texts, answers, samples, self._version, self._tokenizer)

    def _texts(self, prompts: Prompts) -> list[list[int]]:
        """The prompts without their padding, checked."""
        vocabulary = self._llm.model_config.get_vocab_size()
        lengths = prompts.attention_mask.sum(-1).tolist()
        texts = [row[:length] for row, length in zip(prompts.tokens.tolist(), lengths, strict=True)]
        for row, text in enumerate(texts):
            where = f"prompt {row} (group {int(prompts.group[row])})"
            if not 0 < len(text) < self._max_len:
                raise EngineError(
                    f"{where} has {len(text)} tokens; between 1 and {self._max_len - 1} fit, "
                    "see max_model_len"
                )
            if min(text) < 0 or max(text) >= vocabulary:
                raise EngineError(f"{where} has a token outside of 0..{vocabulary - 1}")
        return texts

    def _sample(
        self, prompts: Prompts, texts: list[list[int]], samples: int, heat: float, longest: int
    ) -> list[Any]:
        """vLLM's completions, ``samples`` a prompt, in order."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        settings = self._policy.sampler
        groups = prompts.group.tolist()
        requests = [
            SamplingParams(
                # Greedy samples are all the same, and vLLM takes only one.
                n=samples if heat else 1,
                temperature=heat,
                top_p=settings.top_p if heat else 1.0,
                top_k=settings.top_k if heat else 0,
                max_tokens=min(longest, self._max_len - len(text)),
                seed=self._seed(group, len(text)),
                logprobs=0 if heat else None,
                flat_logprobs=True,
                # Text is made at the end, for all rows at once.
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            for group, text in zip(groups, texts, strict=True)
        ]
        inputs = [{"prompt_token_ids": text} for text in texts]
        self._state = "failed"  # Until proven otherwise: requests may be left over.
        outputs = self._llm.generate(inputs, requests, use_tqdm=False)
        self._state = "awake"
        found = [sorted(output.outputs, key=lambda answer: answer.index) for output in outputs]
        return [answer for some in found for answer in (some if heat else some * samples)]

    def _seed(self, group: int, length: int) -> int:
        """The first sample's seed; vLLM counts up from there for a prompt's other samples."""
        parts = (self._context.seed, self._version, group, length)
        key = np.random.SeedSequence([part % 2**64 for part in parts])
        return int(key.generate_state(1, np.uint64)[0] >> 2)

    def load_weights(self, weights: Weights) -> None:
        """Take over a trainer's weights, in place; cached prefixes of the old ones are dropped.

        Raises:
            EngineError: the engine is asleep, or the weights are those of another model
                (the old ones are then kept).
        """
        self._check("load_weights", "awake", "weights awake")
        self._check_shapes(weights.tensors)
        state, self._state = self._state, "failed"
        if self._policy.sampler.tensor_parallel == 1:
            self._llm.collective_rpc("graph_load", args=(dict(weights.tensors),))
        else:
            self._load_from_file(weights.tensors)
        self._llm.reset_prefix_cache()
        self._state, self._stale, self._version = state, False, weights.version

    def _load_from_file(self, tensors: Mapping[str, Tensor]) -> None:
        """To workers in other processes: a file in shared memory, and its name."""
        folder = SHARED_MEMORY if SHARED_MEMORY.is_dir() else self._context.scratch
        handle, path = tempfile.mkstemp(suffix=".safetensors", prefix="rlgraph-", dir=folder)
        os.close(handle)
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
            self._llm.collective_rpc("graph_load", args=(path,))
        finally:
            os.unlink(path)

    def _check_shapes(self, tensors: Mapping[str, Tensor]) -> None:
        """vLLM only warns of missing weights, in a log that nobody reads."""
        if self._shapes is None:
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(
                    AutoConfig.from_pretrained(self._policy.path)
                )
            self._shapes = {name: t.shape for name, t in checkpoint_tensors(model).items()}
        compare_shapes(self._shapes, {name: tensor.shape for name, tensor in tensors.items()})

    def receive(self, step: str, **arguments: Any) -> None:
        """One step of vLLM's own weight transfer, driven by :mod:`rlgraph.engines.transfer`.

        Raises:
            EngineError: the engine is asleep.
        """
        self._check(f"receive {step}", "awake", "weights awake")
        state, self._state = self._state, "failed"
        self._llm.collective_rpc(step, kwargs=arguments)
        self._state = state

    def received(self, version: int) -> None:
        """End a weight transfer: what is sampled next comes from the new weights."""
        self.receive("finish_weight_update")
        self._llm.reset_prefix_cache()
        self._stale, self._version = False, version

    def checksum(self) -> dict[str, float]:
        """A number per tensor, read off the layers that compute; see :mod:`.checksum`.

        Raises:
            EngineError: asleep, no weights since, or they are split over several devices.
        """
        self._check("checksum", "awake", "weights awake")
        self._check_weights("checksum")
        if self._policy.sampler.tensor_parallel > 1:
            raise EngineError("checksum: not available with tensor_parallel > 1")
        return self._llm.collective_rpc("graph_checksums")[0]

    def verify(self, weights: Weights) -> None:
        """Prove that this engine computes with ``weights``, rounded to its own dtype.

        Raises:
            EngineError: some tensor differs; names it.
        """
        compare(checksums(weights.tensors.items(), self.dtype), self.checksum())

    @property
    def asleep(self) -> bool:
        """Is memory given back, so that nothing can be sampled?"""
        return self._state in ("asleep", "weights awake")

    @property
    def bytes_held(self) -> int:
        """Bytes per device that weights and KV cache hold now, measured."""
        return sum(self._memory.held().values())

    def sleep(self, *, keep_weights: bool = True) -> None:
        """Give back the memory; nothing happens if asleep already.

        ``keep_weights=False`` drops the weights: cheaper, but new ones must be loaded before
        the next ``generate``. Kept, they move to host memory, or on a CPU stay in place.

        Raises:
            EngineError: nothing became free. It is awake, if without weights to be dropped.
        """
        self._check("sleep", "awake", "weights awake", "asleep")
        if self._state == "asleep":
            return
        self._state, self._stale = "failed", self._stale or not keep_weights
        self._llm.reset_prefix_cache()
        try:
            self._memory.sleep(keep_weights=keep_weights)
        except EngineError:
            self._state = "asleep"
            self.wake()
            raise
        self._state = "asleep"

    def wake(self, part: Part | Literal["all"] = "all") -> None:
        """Take the memory again: all of it, or first the weights, to load new ones into.

        Waking what is awake does nothing.

        Raises:
            EngineError: the KV cache before the weights, or too little memory; it sleeps on.
        """
        self._check("wake", "awake", "weights awake", "asleep")
        if self._state == "asleep" and part == "kv_cache":
            raise EngineError("wake: the weights wake before the KV cache, and sleep still")
        if self._state == "asleep":
            self._memory.wake("weights")
            self._state = "weights awake"
        if self._state == "weights awake" and part != "weights":
            self._memory.wake("kv_cache")
            self._state = "awake"

    def close(self) -> None:
        """End the engine and its workers; it cannot be used again."""
        if self._state != "closed":
            self._state = "closed"
            LIVE.discard(self)
            end(self._llm, alone=not LIVE)
            self._llm = None

    def _check(self, action: str, *allowed: State) -> None:
        if self._state not in allowed:
            raise EngineError(
                f"{action}: the vLLM engine of '{self._policy.path}' is {self._state}; it must be "
                f"{' or '.join(allowed)}"
            )

    def _check_weights(self, action: str) -> None:
        if self._stale:
            raise EngineError(f"{action}: the weights were dropped in sleep; load_weights first")
