import pytest

from rlgraph.executors.local import LocalExecutor
from rlgraph.executors.ray import RayExecutor
from rlgraph.scheduling.devices import Devices
from rlgraph.scheduling.modes import place
from rlgraph.settings import RunContext
from tests.toys import toy_graph


@pytest.fixture(scope="session")
def ray_executor():
    """Three host workers for toy graphs; started once, since that takes seconds."""
    residents = toy_graph([1]).residents
    placement = place(residents, "colocate", Devices("cpu", 2, None))
    executor = RayExecutor(residents, placement, RunContext(), host_workers=3)
    yield executor
    executor.close()


@pytest.fixture
def local_executor():
    executor = LocalExecutor(toy_graph([1]).residents, RunContext())
    yield executor
    executor.close()
