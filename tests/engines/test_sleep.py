"""What sleeps wakes up bit for bit, and failures change nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph.engines import sleep
from rlgraph.engines.occupancy import NOTICEABLE, available, occupied, unfreed
from rlgraph.engines.sleep import Holdings
from rlgraph.engines.spill import HostSpill
from rlgraph.errors import EngineError

CPU = torch.device("cpu")
MIB = 1 << 20
DTYPES = [
    *(torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.bool),
    *(torch.uint8, torch.int16, torch.float8_e4m3fn),
]


def holdings(roots, folder):
    return Holdings("the engine of 'm'", roots, device=CPU, scratch=Path(folder))


def raw(tensor):
    return tensor.untyped_storage().tolist()


def open_files(folder):
    """Files of this process in ``folder``, those without a name included."""
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return [link for link in links if link.exists() and str(folder) in os.readlink(link)]


@st.composite
def tensors(draw):
    """Some of odd sizes and types, and views of them, ties included."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        size, dtype = draw(st.integers(0, 300)), draw(st.sampled_from(DTYPES))
        values = torch.randint(0, 256, (size * dtype.itemsize,), dtype=torch.uint8)
        if dtype == torch.bool:
            values = values % 2
        found.append(values.view(dtype))
        if size and draw(st.booleans()):
            found.append(found[-1][draw(st.integers(0, size - 1)) :: draw(st.integers(1, 3))])
        if draw(st.booleans()):
            found.append(found[-1])
    return found


@given(roots=tensors(), twice=st.booleans())
def test_all_bytes_and_all_views_come_back(roots, twice, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    before = [raw(tensor) for tensor in roots]
    places = [(t.untyped_storage()._cdata, t.storage_offset(), t.stride()) for t in roots]
    engine = holdings(roots, folder)
    held = engine.bytes_held
    for _ in range(1 + twice):
        engine.sleep()
        engine.sleep()
        assert engine.asleep
        assert engine.bytes_held == 0
        assert not any(folder.glob("tmp*"))
        engine.wake()
        engine.wake()
        assert not engine.asleep
        assert engine.bytes_held == held
    assert [raw(tensor) for tensor in roots] == before
    assert [(t.untyped_storage()._cdata, t.storage_offset(), t.stride()) for t in roots] == places
    assert open_files(folder) == []


def test_what_was_seen_through_numpy_sleeps_too(tmp_path):
    tensor = torch.arange(100.0)
    view, seen = tensor[10:], tensor.numpy()
    engine = holdings([tensor, view], tmp_path)
    engine.sleep()
    assert engine.bytes_held == 0
    assert seen.tolist() == list(range(100)), "the array stays readable"
    engine.wake()
    assert torch.equal(tensor, torch.arange(100.0))
    assert view.data_ptr() == tensor.data_ptr() + 40


def test_copies_in_host_memory():
    tensors = [torch.arange(7.0), torch.zeros(0), torch.ones(3, dtype=torch.bool)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    sizes = [storage.nbytes() for storage in storages]
    spill = HostSpill()
    spill.write(storages)
    for storage, size in zip(storages, sizes, strict=True):
        storage.resize_(0)
        storage.resize_(size)
        storage.fill_(9)
    spill.read(storages)
    assert tensors[0].tolist() == list(range(7))
    assert tensors[2].all()


@pytest.mark.gpu
def test_on_a_gpu_memory_is_free_and_comes_back(tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    device = torch.device("cuda")
    tensor = torch.arange(200 * MIB // 4, device=device)
    engine = Holdings("it", tensor, device=device, scratch=tmp_path)
    before = occupied(device)
    engine.sleep()
    assert before - occupied(device) > 190 * MIB
    engine.wake()
    assert torch.equal(tensor, torch.arange(200 * MIB // 4, device=device))


def test_actions_are_named(tmp_path):
    engine = holdings([torch.zeros(3)], tmp_path)
    engine.require_awake("train")
    engine.sleep()
    with pytest.raises(EngineError, match="train: the engine of 'm' is asleep; it must be awake"):
        engine.require_awake("train")


def test_memory_is_really_free_and_nothing_of_the_file_is_left(tmp_path):
    # Small ones too: those are not returned to the system by themselves.
    parts = [torch.ones(50 * MIB // 4), *(torch.ones(16_000) for _ in range(1600))]
    engine = holdings(parts, tmp_path)
    before = occupied(CPU)
    engine.sleep()
    assert before - occupied(CPU) > 130 * MIB
    assert list(tmp_path.iterdir()) == []
    assert len(open_files(tmp_path)) == 1
    engine.wake()
    assert open_files(tmp_path) == []
    assert all(bool((part == 1).all()) for part in parts)


def test_a_folder_that_is_not_there(tmp_path):
    tensor = torch.arange(5.0)
    engine = holdings([tensor], tmp_path / "none")
    with pytest.raises(EngineError, match=r"sleep: the engine of 'm' has 0 MiB.*none, which is no"):
        engine.sleep()
    assert not engine.asleep
    assert tensor.tolist() == [0, 1, 2, 3, 4]


def test_too_little_memory_to_wake(tmp_path, monkeypatch):
    tensor = torch.arange(5.0 * MIB / 4)
    engine = holdings([tensor], tmp_path)
    engine.sleep()
    with monkeypatch.context() as patched:
        patched.setattr(sleep, "available", lambda device: 3 * MIB)
        with pytest.raises(EngineError, match="wants 5 MiB, 3 MiB are available.*still asleep"):
            engine.wake()
    assert engine.asleep
    assert engine.bytes_held == 0
    engine.wake()
    assert torch.equal(tensor, torch.arange(5.0 * MIB / 4))


def test_a_copy_that_cannot_be_read(tmp_path, monkeypatch):
    tensor = torch.arange(9.0)
    engine = holdings([tensor], tmp_path)
    engine.sleep()

    def fail(storages):
        raise OSError("Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(engine._spill, "read", fail)
        with pytest.raises(EngineError, match="wake: the engine of 'm'.*Input/output error"):
            engine.wake()
    assert engine.asleep
    assert engine.bytes_held == 0
    engine.wake()
    assert torch.equal(tensor, torch.arange(9.0))


def test_a_sleep_that_frees_nothing(tmp_path, monkeypatch):
    tensor = torch.arange(NOTICEABLE / 4 + 1)
    engine = holdings([tensor], tmp_path)
    monkeypatch.setattr(sleep, "occupied", lambda device: 1000 * MIB)
    with pytest.raises(EngineError, match=r"'m': 64 MiB were let go, but only 0 MiB became free"):
        engine.sleep()
    assert not engine.asleep
    assert torch.equal(tensor, torch.arange(NOTICEABLE / 4 + 1))


def test_when_too_little_counts_as_freed():
    assert unfreed(100 * MIB, 500 * MIB, 450 * MIB, CPU) is None
    assert unfreed(NOTICEABLE, 500 * MIB, 600 * MIB, CPU) is None
    said = unfreed(100 * MIB, 500 * MIB, 460 * MIB, torch.device("cuda"))
    assert said is not None
    assert "100 MiB were let go, but only 40 MiB" in said
    assert "expandable_segments" in said
    assert occupied(CPU) > 0
    assert available(CPU) > 0


LIMITED = """
import resource, sys
from pathlib import Path
import torch
from rlgraph.engines.sleep import Holdings
from rlgraph.engines.spill import HostSpill
from rlgraph.errors import EngineError

tensors = [torch.full((5_000_000,), float(number)) for number in range(10)]  # 200 MB
engine = Holdings("it", tensors, device=torch.device("cpu"), scratch=Path(sys.argv[2]))

def refused(call):
    try:
        call()
    except EngineError as error:
        print(error)
    else:
        raise SystemExit("it went well")

if sys.argv[1] == "disk":
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000_000, unlimited[1]))
    refused(engine.sleep)
    assert not engine.asleep and not list(Path(sys.argv[2]).iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    engine.sleep()
else:
    engine.sleep()
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + 100_000_000, unlimited[1]))
    refused(engine.wake)
    assert engine.asleep and engine.bytes_held == 0
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
engine.wake()
assert all(bool((tensor == number).all()) for number, tensor in enumerate(tensors))
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "disk",
            r"sleep: it has 190 MiB to put into a file in .*\d+ MiB are free: .*File too large",
        ),
        ("memory", r"wake: it wants 190 MiB, \d+ MiB are available: .*allocate.*still asleep"),
    ],
)
def test_limits_of_the_system(tmp_path, what, said):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, what, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(said, ended.stdout, re.DOTALL), ended.stdout
