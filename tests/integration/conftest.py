"""Real engines in real worker processes; each set of them is started once a module."""

import pytest

from tests.engines.conftest import tiny_model, untied_model
from tests.integration.setup import Setup, start_grpo

__all__ = ["grpo", "tiny_model", "untied_model"]

SETUPS = {
    "tied-2-ranks-2-engines": ("tiny_model", 2),
    "untied-1-rank-1-engine": ("untied_model", 1),
}


@pytest.fixture(scope="module", params=SETUPS)
def grpo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """GRPO's residents under vLLM and DeepSpeed, with ranks and engines as the name says."""
    model, workers = SETUPS[request.param]
    folder = tmp_path_factory.mktemp("grpo")
    setup: Setup = start_grpo(request.getfixturevalue(model), workers, folder)
    yield setup
    setup.executor.close()
