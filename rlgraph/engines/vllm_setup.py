"""Loading vLLM: its environment, its settings, and the traps on the way."""

import gc
import logging
import os
from typing import Any, Literal

import torch
from transformers import AutoConfig

from rlgraph.errors import EngineError
from rlgraph.settings import PolicyConfig

# Read when vLLM is imported or builds an engine. The engine core always runs in this
# process: one copy of the weights fewer to move, and it starts in 2 s instead of 20 s.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
# Workers of a tensor-parallel engine would each be pinned to cores of their own choice,
# blind to the trainers on the same host.
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")

LONGEST = 4096
"""Prompt plus response, where neither the model nor the user says less."""

Transfer = Literal["nccl", "ipc"]


def load_llm(policy: PolicyConfig, seed: int, transfer: Transfer | None) -> Any:
    """A ``vllm.LLM`` for what ``policy`` says.

    Raises:
        EngineError: vLLM is missing, or refuses the model or the settings.
    """
    try:
        import vllm
    except ImportError as error:
        raise EngineError(
            f"vLLM cannot be imported ({error}); pip install 'rlgraph[cpu]' or 'rlgraph[gpu]', "
            "or choose --policy.sampler.engine transformers"
        ) from error
    # It prints all scheduled requests when a step fails; the error itself is raised.
    logging.getLogger("vllm.logging_utils.dump_input").disabled = True
    set_num_threads = torch.set_num_threads
    try:
        settings = _settings(policy, seed, transfer)
        if not torch.cuda.is_available():
            _inspect_here(policy.path)
        return vllm.LLM(**settings)
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"vLLM cannot load '{policy.path}': {error}") from error
    finally:
        # vLLM turns it into a no-op to protect a thread binding that this mode has not.
        torch.set_num_threads = set_num_threads


def end(llm: Any, *, alone: bool) -> None:
    """Shut an engine down; ``alone``: no other one lives in this process.

    vLLM's shutdown takes down the process groups that all engines of a process share,
    so with others still running only what is this one's own is ended.
    """
    client = llm.llm_engine.engine_core
    if alone:
        client.shutdown()
    else:
        # Or it would run when the object is collected.
        client._finalizer.detach()
        client.engine_core.scheduler.shutdown()
        if llm.llm_engine.vllm_config.parallel_config.world_size > 1:
            client.engine_core.model_executor.shutdown()
        gc.unfreeze()


def longest_sequence(policy: PolicyConfig) -> int:
    """Tokens that a prompt and its response may have together."""
    config = AutoConfig.from_pretrained(policy.path)
    allowed = getattr(config, "max_position_embeddings", None) or LONGEST
    return policy.sampler.max_model_len or min(allowed, LONGEST)


def _settings(policy: PolicyConfig, seed: int, transfer: Transfer | None) -> dict[str, Any]:
    sampler = policy.sampler
    longest = longest_sequence(policy)
    settings: dict[str, Any] = {
        "model": policy.path,
        "seed": seed % 2**31,
        "max_model_len": longest,
        "max_num_seqs": sampler.max_sequences,
        "tensor_parallel_size": sampler.tensor_parallel,
        "distributed_executor_backend": _backend(sampler.tensor_parallel),
        "logprobs_mode": "processed_logprobs",
        "worker_extension_cls": "rlgraph.engines.vllm_worker.WorkerExtension",
        "use_tqdm_on_load": False,
    }
    if torch.cuda.is_available():
        from vllm.config import WeightTransferConfig

        settings |= {
            "dtype": "bfloat16" if sampler.dtype == "auto" else sampler.dtype,
            "gpu_memory_utilization": sampler.gpu_memory_fraction,
            "enable_sleep_mode": True,
        }
        if transfer is not None:
            settings["weight_transfer_config"] = WeightTransferConfig(backend=transfer)
        return settings
    if transfer is not None:
        raise EngineError(f"weights can be sent by {transfer} between GPUs only")
    return settings | {
        # float32 is the fast type on a CPU.
        "dtype": "float32" if sampler.dtype == "auto" else sampler.dtype,
        "enforce_eager": True,
        "kv_cache_memory_bytes": sampler.kv_cache_mib << 20,
        # The smallest that the kernels take: a prompt's samples share its full blocks.
        "block_size": 32,
        # A request with a seed whose prompt is read in pieces ends in "CPU Generator does
        # not use offset"; whole prompts must then fit into one step.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(longest, LONGEST),
    }


def _backend(tensor_parallel: int) -> str:
    if tensor_parallel == 1:
        return "uni"
    import ray

    return "ray" if torch.cuda.is_available() and ray.is_initialized() else "mp"


def _inspect_here(path: str) -> None:
    """Make the model's class known to vLLM from this process.

    It would inspect it in a fresh interpreter, where the packages that
    :mod:`rlgraph.compat` hides are back, and fail to import. That protects against
    initialising CUDA, which is of no concern on a CPU.
    """
    from vllm import ModelRegistry

    for name in AutoConfig.from_pretrained(path).architectures or ():
        entry = ModelRegistry.models.get(name)
        if entry is not None:
            ModelRegistry.register_model(name, entry.load_model_cls())
