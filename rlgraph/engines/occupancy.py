"""How much memory this process takes, as the system counts it, and giving it back."""

import ctypes

import psutil
import torch

NOTICEABLE = 64 << 20
"""Bytes from which on it is looked at whether they were really freed."""

MIB = 1 << 20


def occupied(device: torch.device) -> int:
    """Bytes taken now: of the GPU by all processes, of the host by this one, swap included."""
    if device.type == "cuda":
        free, whole = torch.cuda.mem_get_info()
        return whole - free
    info = psutil.Process().memory_full_info()
    return info.rss + getattr(info, "swap", 0)


def available(device: torch.device) -> int:
    """Bytes that could be taken now."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return torch.cuda.mem_get_info()[0] + cached
    return psutil.virtual_memory().available + psutil.swap_memory().free


def settle(device: torch.device) -> None:
    """Wait until the device has done all that it was asked to do."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def give_back(device: torch.device) -> None:
    """Return to the system what was freed, and is only kept for the next allocation."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return
    # glibc keeps small blocks, and under Ray blocks of any size.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def unfreed(expected: int, before: int, after: int, device: torch.device) -> str | None:
    """What to say if of ``expected`` bytes less than half was really freed; else None.

    ``before`` and ``after`` are what was :func:`occupied`.
    """
    freed = before - after
    if expected <= NOTICEABLE or freed >= expected / 2:
        return None
    if device.type == "cuda":
        hint = "a frequent cause is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; unset it"
    else:
        hint = "is another allocator preloaded (LD_PRELOAD), or does something else allocate?"
    return f"{expected // MIB} MiB were let go, but only {freed // MIB} MiB became free; {hint}"
