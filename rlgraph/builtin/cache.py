"""A folder for each built-in model, in the user's cache, made once."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rlgraph.errors import EngineError

BUILD_TIMEOUT = 1800.0
"""Seconds to wait for another process that builds the same model."""


def cache_folder() -> Path:
    """``$RLGRAPH_CACHE``, or ``rlgraph`` in the user's cache folder."""
    if own := os.environ.get("RLGRAPH_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlgraph"


def built(name: str, recipe: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
    """The folder that ``build`` fills, under a name that changes with its recipe.

    It is built beside its place and renamed, so a half-built one is never used;
    of several processes that ask at once, one builds and the others wait.

    Raises:
        EngineError: another process has been building for too long.
    """
    key = hashlib.blake2b(json.dumps(recipe, sort_keys=True).encode(), digest_size=6).hexdigest()
    folder = cache_folder() / f"{name}-{key}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{folder}.lock", timeout=BUILD_TIMEOUT):
            if not folder.is_dir():
                draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
                try:
                    build(draft)
                    draft.rename(folder)
                except BaseException:
                    shutil.rmtree(draft, ignore_errors=True)
                    raise
    except Timeout:
        raise EngineError(
            f"another process has been building {name} for {BUILD_TIMEOUT:.0f} s; if there is "
            f"none, remove {folder}.lock"
        ) from None
    return folder
