"""What is packed comes back the same, and is owned by whoever unpacks it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph import wire
from rlgraph.engines.protocols import Weights
from tests.toys import prompts_of


@given(st.lists(st.integers(1, 5), max_size=6), st.data())
def test_records_come_back_row_by_row(lengths, data):
    prompts = prompts_of(lengths)
    wanted = data.draw(st.lists(st.integers(0, max(0, len(lengths) - 1)), max_size=4))
    index = np.array(wanted if lengths else [], dtype=np.int64)
    back = wire.pack(prompts).unpack(index)
    assert len(back) == len(index)
    assert torch.equal(back.tokens, prompts.tokens[torch.from_numpy(index)])
    assert [c["row"] for c in back.columns] == index.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_keep_dtype_and_content(dtype):
    tensor = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    back = wire.pack(tensor).unpack()
    assert back.dtype == dtype and torch.equal(back, tensor)
    assert torch.equal(wire.pack(tensor).unpack(np.array([1])), tensor[1:])


def test_whoever_unpacks_may_write():
    packed = wire.pack(torch.zeros(3))
    packed.array.setflags(write=False)
    packed.unpack().add_(1)
    assert not packed.array.any()


def test_weights_are_views_of_what_was_sent():
    sent = {"a": torch.ones(2, dtype=torch.bfloat16), "b": torch.arange(3.0)}
    back = wire.unpack_weights(wire.pack_weights(Weights(7, sent)))
    assert back.version == 7
    assert all(torch.equal(back.tensors[name], sent[name]) for name in sent)
    assert back.tensors["b"].data_ptr() == sent["b"].data_ptr()
