import pytest
import torch

from rlgraph.engines.checksum import checksums, compare, compare_shapes
from rlgraph.errors import EngineError


def of(*tensors, dtype=torch.float32):
    return checksums(((f"t{i}", tensor) for i, tensor in enumerate(tensors)), dtype)


def test_a_known_sum():
    assert of(torch.tensor([[1.0, 10.0], [100.0, 0.5]])) == {"t0": 1 + 20 + 300 + 2}


def test_equal_tensors_agree_whatever_their_layout():
    tensor = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    assert of(tensor) == of(tensor.t().contiguous().t())


@pytest.mark.parametrize("dim", [0, 1])
def test_swapped_rows_or_columns_differ(dim):
    tensor = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert of(tensor) != of(tensor.roll(1, dim))


def test_a_trainer_is_rounded_to_the_samplers_type():
    tensor = torch.randn(64, generator=torch.Generator().manual_seed(0))
    assert of(tensor, dtype=torch.bfloat16) == of(tensor.bfloat16(), dtype=torch.bfloat16)
    assert of(tensor) != of(tensor.bfloat16())


def test_compare_names_the_tensor():
    compare({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0})
    with pytest.raises(EngineError, match=r"1 of 2 tensors differ.*first b"):
        compare({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0})
    with pytest.raises(EngineError, match="first b"):
        compare({"a": 1.0, "b": 2.0}, {"a": 1.0})


def test_a_tied_head_must_follow_the_embeddings():
    sent = {"model.embed_tokens.weight": 5.0}
    compare(sent, {**sent, "lm_head.weight": 5.0})
    with pytest.raises(EngineError, match=r"lm_head\.weight"):
        compare(sent, {**sent, "lm_head.weight": 4.0})


def test_shapes():
    two, three = torch.Size([2, 2]), torch.Size([3])
    compare_shapes({"a": two}, {"a": two, "lm_head.weight": three})
    for given in ({}, {"a": three}, {"a": two, "b": two}):
        with pytest.raises(EngineError, match="load_weights"):
            compare_shapes({"a": two}, given)
    with pytest.raises(EngineError, match=r"lm_head\.weight has shape none, expected 3"):
        compare_shapes({"lm_head.weight": three}, {})
