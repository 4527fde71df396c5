"""Training on one or many devices with DeepSpeed's ZeRO (Rajbhandari et al., 2020).

One process is one rank. It finds the others by RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR and MASTER_PORT, which whoever starts it has set.
"""

import datetime
import logging
import os
import warnings
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.utils import logger
from torch import Tensor
from torch.distributed import distributed_c10d
from transformers import AutoTokenizer

from rlgraph.engines.protocols import Weights
from rlgraph.errors import EngineError
from rlgraph.settings import PolicyConfig, RunContext
from rlgraph.training.backend import Alone, Forward, Head
from rlgraph.training.learner import FrozenModel, Learner
from rlgraph.training.model import (
    Headed,
    PlainModel,
    checkpoint_tensors,
    compute_dtype,
    load,
    ready_cpu,
    training_dtype,
)
from rlgraph.training.optimizer import adamw

TIMEOUT = datetime.timedelta(minutes=10)
"""How long a rank waits for the others before it gives up."""

BUCKET = 500_000_000
"""Gradients that are summed over the ranks at a time, at most; DeepSpeed's default."""

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class DistributedRanks:
    """All processes of the default group."""

    def __init__(self, device: torch.device) -> None:
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._device = device

    def sum(self, values: Tensor) -> Tensor:
        """Element-wise sum over all ranks."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def max(self, values: Tensor) -> Tensor:
        """Element-wise maximum over all ranks."""
        return self._reduce(values, dist.ReduceOp.MAX)

    def _reduce(self, values: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        shared = values.detach().to(self._device, copy=True)
        dist.all_reduce(shared, operation)
        return shared.to(values.device)


def join_ranks(timeout: datetime.timedelta) -> torch.device:
    """Meet the other ranks; this rank's device.

    Raises:
        EngineError: the environment does not say who they are.
    """
    ready_cpu()
    logger.setLevel(logging.WARNING)
    # DeepSpeed calls collectives by names that newer versions of torch warn about, every time.
    warnings.filterwarnings("ignore", r"`torch\.distributed\..* is deprecated", FutureWarning)
    if missing := [name for name in VARIABLES if name not in os.environ]:
        raise EngineError(
            f"DeepSpeed needs {', '.join(missing)} in the environment of each rank; "
            "start it through the ray executor or torchrun, or set trainer.engine=transformers"
        )
    if torch.cuda.is_available():
        # Each Ray worker sees its own GPU only, whatever its local rank.
        local = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
        os.environ["LOCAL_RANK"] = str(local)
        torch.cuda.set_device(local)
        device, backend = torch.device("cuda", local), "nccl"
    else:
        device, backend = torch.device("cpu"), "gloo"
    deepspeed.init_distributed(backend, timeout=timeout, verbose=False)
    return device


def limit_waiting(timeout: datetime.timedelta) -> None:
    """Give every process group a timeout.

    DeepSpeed makes groups of its own without one, so a rank that hangs would hold
    up its peers for much longer than the timeout they were started with.
    """
    for group in distributed_c10d._world.pg_map:
        distributed_c10d._set_pg_timeout(timeout, group)


def zero_settings(policy: PolicyConfig, stage: int, dtype: torch.dtype) -> dict[str, Any]:
    """The configuration that DeepSpeed is started with."""
    trainer = policy.trainer
    zero: dict[str, Any] = {"stage": stage}
    if trainer.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    settings: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "zero_optimization": zero,
        # Stage 0 clips here, in `step`, where the norm is looked at first.
        "gradient_clipping": trainer.max_grad_norm if stage else 0.0,
        # torch's AdamW, also on offloaded states: DeepSpeed's own have to be compiled.
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    if dtype == torch.bfloat16:
        settings["bf16"] = {"enabled": True}
        settings["data_types"] = {"grad_accum_dtype": "fp32"}
    return settings


class DeepSpeedBackend:
    """This rank's part of the weights and optimizer states."""

    def __init__(self, policy: PolicyConfig, head: Head, timeout: datetime.timedelta) -> None:
        self.device = join_ranks(timeout)
        self.ranks = DistributedRanks(self.device)
        self._max_norm = policy.trainer.max_grad_norm or torch.inf
        dtype = training_dtype(policy.trainer.dtype, self.device)
        # Stage 0 has no float32 master copy of bfloat16 weights, and small updates
        # would vanish without one; stage 1 has.
        self.stage = policy.trainer.zero_stage
        if dtype == torch.bfloat16 or policy.trainer.offload_optimizer:
            self.stage = max(self.stage, 1)  # type: ignore[assignment]
        model = load(policy.path, head, torch.float32)
        if policy.trainer.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        module = Headed(model, head).train()
        settings = zero_settings(policy, self.stage, dtype)
        # Stage 3 keeps a buffer of that size, however small the model.
        numbers = sum(parameter.numel() for parameter in module.parameters())
        settings["zero_optimization"]["reduce_bucket_size"] = min(BUCKET, numbers)
        self.engine, *_ = deepspeed.initialize(
            model=module,
            optimizer=adamw(module.to(self.device), policy.trainer),
            config=settings,
        )
        limit_waiting(timeout)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """See :class:`~rlgraph.training.backend.Forward`."""
        return self.engine(tokens, positions)

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """See :class:`~rlgraph.training.backend.Backend`."""
        self.engine.set_gradient_accumulation_boundary(last)
        # DeepSpeed averages gradients over ranks; the loss is normalised over all of
        # them already, so they have to be summed.
        self.engine.backward(loss * self.ranks.world_size, scale_wrt_gas=False)

    def step(self, learning_rate: float) -> float:
        """See :class:`~rlgraph.training.backend.Backend`."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = learning_rate
        if self.stage == 0:
            norm = torch.nn.utils.clip_grad_norm_(self.engine.module.parameters(), self._max_norm)
            if bool(norm.isfinite()):
                self.engine.step()
            else:
                self.engine.zero_grad()
            return float(norm)
        self.engine.step()
        if not self.engine.was_step_applied():
            return torch.inf
        return float(self.engine.get_global_grad_norm())

    def gathered(self) -> dict[str, Tensor]:
        """On rank 0 all weights, on CPU; on the others nothing. All ranks take part."""
        model = self.engine.module.model
        if self.stage < 3:
            if self.ranks.rank:
                return {}
            return {name: tensor.cpu() for name, tensor in checkpoint_tensors(model).items()}
        whole: dict[str, Tensor] = {}
        names = checkpoint_tensors(model)
        parameters = dict(model.named_parameters())
        for name, buffer in names.items():
            # One at a time: a device need not hold the whole model.
            with deepspeed.zero.GatheredParameters([parameters.get(name, buffer)]):
                if self.ranks.rank == 0:
                    whole[name] = parameters.get(name, buffer).detach().cpu().clone()
        return whole


class DeepSpeedTrainer(Learner):
    """One rank of a policy (``head="lm"``) or a critic (``head="value"``) that learns."""

    def __init__(
        self,
        policy: PolicyConfig,
        context: RunContext,
        *,
        head: Head = "lm",
        timeout: datetime.timedelta = TIMEOUT,
    ) -> None:
        self._backend = DeepSpeedBackend(policy, head, timeout)
        sharded = self._backend.stage == 3
        super().__init__(self._backend, head, policy, context, sharded=sharded)

    def weights(self) -> Weights:
        """The current parameters on rank 0; no tensors on the others, which take part.

        On CPU below stage 3 they alias the model: copy to keep.
        """
        self._holdings.require_awake("weights")
        return Weights(self.version, self._backend.gathered())

    def save(self, folder: str) -> None:
        """Write model and tokenizer in Hugging Face format; all ranks take part.

        When it returns, on any rank, the files are complete.
        """
        self._holdings.require_awake("save")
        tensors = self._backend.gathered()
        if self._backend.ranks.rank == 0:
            self._backend.engine.module.model.save_pretrained(folder, state_dict=tensors)
            AutoTokenizer.from_pretrained(self.policy.path).save_pretrained(folder)
        dist.barrier()


class ShardedModel:
    """A frozen model whose weights are spread over the ranks (ZeRO stage 3)."""

    def __init__(self, policy: PolicyConfig, head: Head, timeout: datetime.timedelta) -> None:
        self.device = join_ranks(timeout)
        dtype = compute_dtype(policy.trainer.dtype, self.device)
        module = Headed(load(policy.path, head, dtype), head).eval().requires_grad_(False)
        settings = {
            "train_micro_batch_size_per_gpu": 1,
            "zero_optimization": {"stage": 3},
            "bf16": {"enabled": dtype == torch.bfloat16},
        }
        self._engine, *_ = deepspeed.initialize(model=module, config=settings)
        limit_waiting(timeout)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """See :class:`~rlgraph.training.backend.Forward`."""
        return self._engine(tokens, positions)


class DeepSpeedScorer(FrozenModel):
    """One rank of a model that is never trained.

    Below ZeRO stage 3 each rank holds a whole copy in plain torch, and ranks need
    not know of each other.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        context: RunContext,
        *,
        head: Head = "lm",
        timeout: datetime.timedelta = TIMEOUT,
    ) -> None:
        if policy.trainer.zero_stage == 3:
            model: Forward = ShardedModel(policy, head, timeout)
            super().__init__(model, head, policy, context, DistributedRanks(model.device))
        else:
            model = PlainModel(policy.path, head, policy.trainer.dtype)
            super().__init__(model, head, policy, context, Alone())
