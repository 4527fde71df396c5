"""Models that need no download: built on first use and cached."""

from pathlib import Path

from rlgraph.builtin import smollm2, tiny
from rlgraph.builtin.cache import built
from rlgraph.errors import EngineError

MODELS = {"tiny": tiny, "smollm2-135m": smollm2}
"""Each module has ``build(folder)``, ``RECIPE`` and ``LEARNING_RATE``."""


def resolve(path: str) -> str:
    """The folder of a model: built-in names are built if they are not yet.

    A folder comes back as it is, and so does a name that may be one on the hub.

    Raises:
        EngineError: it looks like a folder, but is none.
    """
    if path in MODELS:
        return str(built(path, MODELS[path].RECIPE, MODELS[path].build))
    folder = Path(path).expanduser()
    if folder.is_dir():
        return str(folder)
    if path.startswith(("/", ".", "~")) or path.count("/") != 1:
        raise EngineError(
            f"{path}: no such folder; give a model's folder, a name on the Hugging Face hub "
            f"(org/name), or a built-in model: {', '.join(MODELS)}"
        )
    return path


def learning_rate(path: str) -> float:
    """A peak learning rate for on-policy training: a built-in model's own, else 1e-6."""
    return MODELS[path].LEARNING_RATE if path in MODELS else 1e-6
