"""The settings of models, data and rewards, as users see them on the command line.

Calling a section gives the handle that a graph wires: ``config.policy()``.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from rlgraph.models import Critic, Policy

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class RunContext:
    """What an engine must know of the run that it serves."""

    seed: int = 0
    steps: int = 1
    """Optimizer schedules end here."""
    scratch: Path = Path("runs/scratch")
    """A folder on local disk for spill files and the like; made by the run."""


@dataclass(frozen=True)
class SamplerConfig:
    """How responses are sampled."""

    engine: Literal["auto", "vllm", "transformers"] = "auto"
    """auto: vLLM under Ray, transformers in-process."""
    engines: int = 1
    """Sampler engines; each samples its share of the prompts."""
    tensor_parallel: int = 1
    """Devices that one engine spreads its weights over."""
    max_new_tokens: int = 16
    """Longest response, in tokens, end-of-sequence included."""
    top_p: float = 1.0
    """Nucleus sampling: keep the smallest set of tokens with this mass."""
    top_k: int = 0
    """Keep this many most probable tokens; 0 keeps all."""
    dtype: Dtype = "auto"
    """auto: float32 on CPU, bfloat16 on GPU."""
    max_sequences: int = 256
    """Sequences that are decoded at the same time, per engine."""
    max_model_len: int | None = None
    """Longest prompt plus response; default: what the model allows, at most 4096."""
    kv_cache_mib: int = 512
    """KV cache per engine on CPU, in MiB."""
    gpu_memory_fraction: float = 0.85
    """Share of a GPU's memory for weights and KV cache."""


@dataclass(frozen=True)
class TrainerConfig:
    """How weights are trained."""

    engine: Literal["auto", "deepspeed", "transformers"] = "auto"
    """auto: DeepSpeed under Ray, plain torch in-process."""
    ranks: int = 1
    """Data-parallel worker processes."""
    learning_rate: float | None = None
    """Peak learning rate of AdamW; default: 1e-6, or what a built-in model recommends."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after the warm-up."""
    warmup_steps: int = 0
    """Optimizer steps over which the learning rate rises from 0."""
    min_learning_rate: float = 0.0
    """Where linear and cosine schedules end."""
    weight_decay: float = 0.0
    """AdamW's decoupled decay; biases, norms and embeddings are left out."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's moment decay rates."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this global norm; 0 turns it off."""
    dtype: Dtype = "auto"
    """auto: float32 on CPU, bfloat16 on GPU."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """What DeepSpeed shards over the ranks: nothing, optimizer, + gradients, + weights."""
    offload_optimizer: bool = False
    """Keep optimizer states in host memory."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""


@dataclass(frozen=True)
class PolicyConfig:
    """The model that learns."""

    path: str = "tiny"
    """Hugging Face causal LM (folder or hub name), or built-in: tiny, smollm2-135m."""
    temperature: float = 1.0
    """Softmax temperature, of sampling and of all log-probabilities."""
    max_tokens_per_micro_batch: int = 16384
    """Padded tokens in one forward pass; lower it when memory runs out."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    sampler: SamplerConfig = field(default_factory=SamplerConfig)

    def __call__(self, name: str = "policy") -> Policy:
        """The handle that a graph wires."""
        return Policy(name, self)


@dataclass(frozen=True)
class CriticConfig:
    """The model that estimates values."""

    path: str | None = None
    """Model to start from, such as a reward model; default: the policy's."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)

    def __call__(self, policy: PolicyConfig, name: str = "critic") -> Critic:
        """The handle that a graph wires; what is not said here is as for ``policy``."""
        return Critic(name, replace(policy, path=self.path or policy.path, trainer=self.trainer))
