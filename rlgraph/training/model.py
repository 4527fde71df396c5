"""A Hugging Face model whose head runs only where it is asked."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    PreTrainedModel,
)
from transformers.utils import logging

from rlgraph.errors import EngineError
from rlgraph.settings import Dtype
from rlgraph.training.backend import Head


def this_device() -> torch.device:
    """The GPU that this process may use, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def ready_cpu() -> None:
    """What every engine asks of torch before it computes on a CPU.

    When all rewards of a batch are equal, gradients and AdamW's moments decay into
    denormal numbers, on which a CPU is up to a hundred times slower.
    """
    torch.set_flush_denormal(True)


def compute_dtype(dtype: Dtype, device: torch.device) -> torch.dtype:
    """The type of the matrix products: on CPU float32 is the fast one."""
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return getattr(torch, dtype)


def training_dtype(dtype: Dtype, device: torch.device) -> torch.dtype:
    """The same for a trainer.

    Raises:
        EngineError: float16, whose small range would need loss scaling.
    """
    if dtype == "float16":
        raise EngineError("training in float16 is not supported; use bfloat16 or float32")
    return compute_dtype(dtype, device)


def load(path: str, head: Head, dtype: torch.dtype) -> PreTrainedModel:
    """A pretrained model with dropout off: training and scoring see one distribution.

    A value head that the checkpoint does not have starts at 0, so that an untrained
    critic says 0 everywhere; a reward model's own head is kept. It is saved in
    Hugging Face's token-classification format.

    Raises:
        EngineError: nothing loadable at ``path``.
    """
    try:
        config = AutoConfig.from_pretrained(path)
        for name in vars(config):
            if name.endswith(("dropout", "pdrop", "dropout_rate")):
                setattr(config, name, 0.0)
        options: dict[str, Any] = {"config": config, "dtype": dtype}
        if head == "lm":
            return AutoModelForCausalLM.from_pretrained(path, **options)
        config.num_labels = 1
        config.classifier_dropout = 0.0
        with _errors_only():
            model, report = AutoModelForTokenClassification.from_pretrained(
                path, **options, output_loading_info=True
            )
    except (OSError, ValueError) as error:
        raise EngineError(
            f"cannot load a model with a {head} head from '{path}': {error}"
        ) from error
    for name, parameter in model.score.named_parameters():
        if f"score.{name}" in report["missing_keys"]:
            nn.init.zeros_(parameter)
    return model


@contextlib.contextmanager
def _errors_only() -> Iterator[None]:
    """Without the warning that a value head is new, which is what is meant."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


class Headed(nn.Module):
    """A model with its head at chosen positions only.

    The positions are picked in front of the head, whatever the architecture does
    after it (soft caps, scales) stays in place. For long prompts and large
    vocabularies that saves most of the memory.
    """

    def __init__(self, model: PreTrainedModel, head: Head) -> None:
        super().__init__()
        self.model = model
        layer = model.get_output_embeddings() if head == "lm" else model.score
        assert isinstance(layer, nn.Module)
        layer.register_forward_pre_hook(self._pick)
        self._positions: Tensor | None = None

    def _pick(self, layer: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if self._positions is None:
            return None
        hidden = args[0].flatten(0, -2).index_select(0, self._positions)
        return (hidden.unsqueeze(0), *args[1:])

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Head outputs ``[positions, vocabulary or 1]`` for right-padded ``[batch seq]``."""
        self._positions = positions
        try:
            return self.model(input_ids=tokens, use_cache=False).logits[0]
        finally:
            self._positions = None


def checkpoint_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers under their Hugging Face names, detached, not copied.

    A tensor that is tied to another (an output head to the embeddings) appears once,
    under the name that a checkpoint has it by.
    """
    first = dict(model.named_parameters())
    every = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    saved = model.state_dict()
    return {name: tensor for name, tensor in saved.items() if name in first or name not in every}


def load_tensors(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy a checkpoint's tensors into a model of any dtype and device.

    Raises:
        EngineError: a name is missing, unknown, or has another shape; nothing was copied.
    """
    own = model.state_dict()
    missing = checkpoint_tensors(model).keys() - tensors.keys()
    unknown = tensors.keys() - own.keys()
    odd = {name for name in tensors.keys() & own.keys() if tensors[name].shape != own[name].shape}
    for what, names in (("lack", missing), ("have an unknown", unknown), ("misshape", odd)):
        if names:
            raise EngineError(
                f"the weights {what} {sorted(names)[0]} (and {len(names) - 1} more); "
                "do sampler and trainer start from the same model?"
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


class PlainModel:
    """A frozen model on one device, in plain torch."""

    def __init__(self, path: str, head: Head, dtype: Dtype) -> None:
        ready_cpu()
        self.device = this_device()
        model = load(path, head, compute_dtype(dtype, self.device))
        self._module = Headed(model, head).to(self.device).eval().requires_grad_(False)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """See :class:`~rlgraph.training.backend.Forward`."""
        return self._module(tokens, positions)
