"""Python files that a user names by path: graph files and reward functions."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

LOADED: dict[str, ModuleType] = {}
"""By module name. Only this process can import them, so workers are sent their content."""


def import_file(path: Path, name: str) -> ModuleType:
    """Run the file at ``path`` as module ``name``, so that no installed module is shadowed.

    Whatever the file raises comes through, and no half-loaded module stays behind.
    """
    if str(path.parent) not in sys.path:
        # What lies beside the file can be imported by it.
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception:
        del sys.modules[name]
        raise
    LOADED[name] = module
    return module
