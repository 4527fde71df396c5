"""What must be put right before the stack is imported."""

import sys
from importlib import metadata
from pathlib import Path


def prepare(package_path: list[str]) -> None:
    """Called once, when ``rlgraph`` is first imported."""
    find_libraries(package_path)
    hide_mismatched_extensions()


def find_libraries(package_path: list[str]) -> None:
    """Let ``rlgraph.nodes`` and ``rlgraph.graphs`` be found when run from a checkout.

    They are top-level folders that the build maps into the package. With a
    checkout as working directory its ``rlgraph`` shadows the installed one and
    the mapping does not apply, so the checkout itself is searched as well.
    """
    checkout = Path(package_path[0]).parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "nodes").is_dir():
        package_path.append(str(checkout))


def hide_mismatched_extensions() -> None:
    """With a CPU-only torch, hide companion packages that were built for CUDA.

    Vision and audio packages from the registry need CUDA libraries, and their
    failing import takes transformers and vLLM down with it. Both do without
    them for text models if they are absent.
    """
    try:
        on_cpu = metadata.version("torch").endswith("+cpu")
    except metadata.PackageNotFoundError:
        return
    if on_cpu:
        for name in ("torchvision", "torchaudio", "torchcodec"):
            if name not in sys.modules:
                sys.modules[name] = None  # type: ignore[assignment]
