"""What the sampler asks of vLLM's workers, in whatever process they run.

vLLM mixes this class into its worker (``worker_extension_cls``); each method is
called by name on all of them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rlgraph.engines.checksum import checksums
from rlgraph.engines.vllm_memory import WorkerMemory, weight_shape
from rlgraph.errors import EngineError


class WorkerExtension(WorkerMemory):
    """Weights in, checksums out, and memory that can be given back.

    Names start with ``graph_`` so as not to collide with the worker's own.
    """

    vllm_config: Any
    reload_weights: Any

    def graph_load(self, source: Mapping[str, Tensor] | str) -> None:
        """Take over checkpoint tensors, given as they are or as a safetensors file.

        Raises:
            EngineError: the file is not there, as on another host.
        """
        if isinstance(source, str):
            if not Path(source).is_file():
                raise EngineError(
                    f"weights file {source} is not on this host: an engine that spreads over "
                    "hosts cannot be updated through shared memory"
                )
            source = load_file(source)
        self.reload_weights(weights_iterator=iter(source.items()))
        repack_tied_head(self.model_runner.get_model())

    def graph_checksums(self) -> dict[str, float]:
        """Per tensor of the checkpoint, from what the model computes with."""
        model = self.model_runner.get_model()
        return checksums(checkpoint_tensors(model), self.vllm_config.model_config.dtype)


def repack_tied_head(model: nn.Module) -> None:
    """Let an output head that shares the embeddings' weight follow them.

    On CPU linear layers compute with a packed copy. A reload repacks the layers it
    has weights for; a tied head has none of its own, and would silently stay old.
    """
    head: Any = getattr(model, "lm_head", None)
    if hasattr(head, "quant_method"):
        head.quant_method.process_weights_after_loading(head)


def checkpoint_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weights under the names of the checkpoint, layers that vLLM fused taken apart.

    For a model that is not split over workers.
    """
    fused: Mapping[str, list[str]] = getattr(model, "packed_modules_mapping", {})
    for path, module in model.named_modules():
        parent, _, leaf = path.rpartition(".")
        for kind, tensor in _effective(module):
            if leaf in fused:
                sizes = list(module.output_partition_sizes)  # type: ignore[union-attr, arg-type]
                prefix = f"{parent}." if parent else ""
                for part, piece in zip(fused[leaf], tensor.split(sizes), strict=True):
                    yield f"{prefix}{part}.{kind}", piece
            else:
                yield f"{path}.{kind}", tensor


def _effective(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for kind, parameter in module.named_parameters(recurse=False):
        tensor = parameter.detach()
        if kind == "weight" and hasattr(module, "cpu_linear"):
            tensor = _unpacked(module)
        # Vocabularies are padded to a multiple of the kernel's width.
        rows = getattr(module, "org_vocab_size", None)
        yield kind, tensor if rows is None else tensor[:rows]


def _unpacked(module: Any, block: int = 512) -> Tensor:
    """A packed layer's weight ``[out in]``, read off by multiplying with unit vectors: exact."""
    weight, bias = module.weight, getattr(module, "bias", None)
    rows, columns = weight_shape(module)
    dtype = weight.dtype
    none = None if bias is None else torch.zeros_like(bias)
    result = torch.empty(rows, columns, dtype=dtype)
    for start in range(0, columns, block):
        count = min(block, columns - start)
        units = torch.zeros(count, columns, dtype=dtype)
        units[torch.arange(count), torch.arange(start, start + count)] = 1
        result[:, start : start + count] = module.cpu_linear(units, weight, none).t()
    return result
