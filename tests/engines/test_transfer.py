"""Driving vLLM's weight transfer: the client's bookkeeping, and on GPUs the real thing."""

import multiprocessing
import os
import socket

import pytest
import torch
from conftest import make_prompts

pytest.importorskip("vllm")

from vllm.distributed.weight_transfer import VLLMWeightSyncClient

from rlgraph.engines.transfer import Described, Engines, Source, open_link

PATIENCE = 300.0


class Recorder:
    """Some sampler engines that only remember what they were asked."""

    def __init__(self, count):
        self.asked = []
        self.calls = [self._call(number) for number in range(count)]

    def _call(self, number):
        return lambda *args, **kwargs: self.asked.append((number, *args, kwargs)) or number

    def wait(self, pending):
        self.asked.append(("wait", list(pending)))


def test_it_is_vllms_client():
    assert isinstance(Engines([], lambda pending: None), VLLMWeightSyncClient)


def test_every_worker_of_every_engine_gets_a_rank_of_its_own():
    engines = Recorder(3)
    client = Engines(engines.calls, engines.wait, tensor_parallel=2)
    given = {"rank_offset": 1, "world_size": 7}
    client.init_weight_transfer_engine(given)
    offsets = [kwargs["init_info"]["rank_offset"] for *_, kwargs in engines.asked[:3]]
    assert offsets == [1, 3, 5]
    assert engines.asked[3] == ("wait", [0, 1, 2])
    assert given["rank_offset"] == 1


def test_an_update_reaches_all_engines_and_carries_its_version():
    engines = Recorder(2)
    client = Engines(engines.calls, engines.wait)
    client.version = 4
    client.start_weight_update()
    client.update_weights({"names": []})
    client.finish_weight_update()
    assert engines.asked == [
        (0, "receive", "start_weight_update", {}),
        (1, "receive", "start_weight_update", {}),
        ("wait", [0, 1]),
        (0, "receive", "update_weights", {"update_info": {"names": []}}),
        (1, "receive", "update_weights", {"update_info": {"names": []}}),
        ("wait", [0, 1]),
        (0, "received", 4, {}),
        (1, "received", 4, {}),
        ("wait", [0, 1]),
    ]


def test_a_source_streams_afresh_each_time():
    tensor = torch.zeros(2)
    described = [Described("a", torch.float32, (2,))]
    source = Source(described, lambda: (pair for pair in [("a", tensor)]))
    assert list(source) == list(source) == [("a", tensor)]
    assert source.metadata() == described


def serve(connection, path, backend, device):
    """A sampler in a process of its own: answers one call after the other."""
    os.environ["CUDA_VISIBLE_DEVICES"] = str(device)
    from rlgraph.engines.vllm import VllmSampler
    from rlgraph.settings import PolicyConfig, RunContext, SamplerConfig

    config = SamplerConfig(dtype="float32", gpu_memory_fraction=0.2, max_new_tokens=8)
    engine = VllmSampler(PolicyConfig(path=path, sampler=config), RunContext(), transfer=backend)
    connection.send(None)
    while (call := connection.recv()) is not None:
        method, args, kwargs = call
        try:
            connection.send(getattr(engine, method)(*args, **kwargs))
        except Exception as error:
            connection.send(error)
    engine.close()


def answer(connection):
    assert connection.poll(PATIENCE), "the sampler does not answer"
    given = connection.recv()
    if isinstance(given, Exception):
        raise given
    return given


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("backend", ["ipc", "nccl"])
def test_weights_arrive_from_gpu_to_gpu(backend, tiny_model):
    from transformers import AutoModelForCausalLM

    from rlgraph.engines.protocols import Weights
    from rlgraph.training.model import checkpoint_tensors

    if backend == "nccl" and torch.cuda.device_count() < 2:
        pytest.skip("NCCL wants trainer and sampler on GPUs of their own")
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    device = 0 if backend == "ipc" else 1
    child = spawn.Process(target=serve, args=(theirs, tiny_model, backend, device), daemon=True)
    child.start()
    try:
        answer(mine)
        model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).cuda(0)
        torch.cuda.set_device(0)

        def call(method, *args, **kwargs):
            mine.send((method, args, kwargs))
            return mine

        def parameters():
            return checkpoint_tensors(model).items()

        described = [Described(n, t.dtype, tuple(t.shape)) for n, t in parameters()]
        engines = Engines([call], lambda pending: [answer(one) for one in pending])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        link = open_link(
            backend,
            Source(described, parameters),
            engines,
            rank=0,
            workers=1,
            address="127.0.0.1",
            port=port,
        )
        for version in (1, 2, 3):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter += 0.05 * torch.randn_like(parameter)
            link.send(version)
            answer(call("verify", Weights(version, {n: t.cpu() for n, t in parameters()})))
            rollout = answer(call("generate", make_prompts(["1+2=", "a"]), samples=2))
            assert rollout.policy_version.tolist() == [version] * 4
        link.close()
        mine.send(None)
        child.join(PATIENCE)
    finally:
        child.kill()
