"""How many bytes a resident is expected to hold on each of its devices."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from rlgraph.errors import EngineError
from rlgraph.models import Resident
from rlgraph.scheduling.devices import Devices
from rlgraph.settings import PolicyConfig


@dataclass(frozen=True)
class Memory:
    """Bytes per device, in each state."""

    awake: int
    asleep: int = 0
    weights: int | None = None
    """Of a sampler: with its weights, but without its KV cache."""

    @property
    def levels(self) -> tuple[int, int, int]:
        """Asleep, with weights only, awake."""
        return self.asleep, self.awake if self.weights is None else self.weights, self.awake


def estimate(residents: Mapping[str, Resident], devices: Devices) -> dict[str, Memory]:
    """The memory table of all residents that need a device.

    Weights, gradients and optimizer states; activations come on top and are
    bounded by ``--policy.max-tokens-per-micro-batch``.
    """
    table = {}
    for name, resident in residents.items():
        if resident.kind == "trainer":
            table[name] = Memory(_trainer_bytes(resident.settings, devices))
        elif resident.kind == "scorer":
            policy = resident.settings
            weights = parameters(policy.path) * _width(policy.trainer.dtype, devices)
            shards = policy.trainer.ranks if policy.trainer.zero_stage == 3 else 1
            table[name] = Memory(weights // shards)
        elif resident.kind == "sampler":
            table[name] = _sampler(resident.settings, devices)
        elif resident.on_device:
            table[name] = Memory(parameters(resident.settings.model) * _width("auto", devices))
    return table


def parameters(path: str) -> int:
    """The number of parameters of a causal LM, read from its configuration alone.

    Raises:
        EngineError: there is no such model, or it is no causal LM.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    from rlgraph.builtin import resolve

    folder = resolve(path)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    except (OSError, ValueError) as error:
        raise EngineError(
            f"{path}: cannot be read as a causal language model: {error}; give the folder that "
            "save_pretrained wrote, or a name on the Hugging Face hub that can be reached"
        ) from error
    return sum(parameter.numel() for parameter in model.parameters())


def _trainer_bytes(policy: PolicyConfig, devices: Devices) -> int:
    """ZeRO's accounting (Rajbhandari et al., 2020, section 3.1)."""
    count, trainer = parameters(policy.path), policy.trainer
    width = _width(trainer.dtype, devices)
    weights, gradients = count * width, count * width
    # AdamW's two moments, and a float32 master copy of weights in a shorter type.
    optimizer = count * (8 if width == 4 else 12)
    if trainer.offload_optimizer and devices.kind == "gpu":
        optimizer = 0
    stage, ranks = trainer.zero_stage, trainer.ranks
    return (
        weights // (ranks if stage >= 3 else 1)
        + gradients // (ranks if stage >= 2 else 1)
        + optimizer // (ranks if stage >= 1 else 1)
    )


def _sampler(policy: PolicyConfig, devices: Devices) -> Memory:
    """A sampler that sleeps drops its weights, since a sync brings new ones."""
    sampler = policy.sampler
    weights = parameters(policy.path) * _width(sampler.dtype, devices) // sampler.tensor_parallel
    if devices.kind == "gpu" and devices.memory is not None:
        # vLLM fills its share with KV cache, whatever the weights take.
        return Memory(int(devices.memory * sampler.gpu_memory_fraction), 0, weights)
    return Memory(weights + (sampler.kv_cache_mib << 20), 0, weights)


def _width(dtype: str, devices: Devices) -> int:
    """Bytes per parameter."""
    if dtype == "auto":
        return 4 if devices.kind == "cpu" else 2
    return torch.finfo(getattr(torch, dtype)).bits // 8
