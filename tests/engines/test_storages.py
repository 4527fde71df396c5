import types
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rlgraph.engines.storages import movable, own, storages_of, tensors_of, total

CPU = torch.device("cpu")


class Slotted:
    __slots__ = ("inner", "unset")

    def __init__(self, inner):
        self.inner = inner


class Child(Slotted):
    __slots__ = "other"  # one name may be given as a string


@dataclass
class Plain:
    inner: object
    more: list = field(default_factory=list)


def attribute(tensor):
    carrier = torch.zeros(0)
    carrier.ds_tensor = tensor
    return carrier


def gradient(tensor):
    parameter = nn.Parameter(torch.zeros(tensor.shape))
    parameter.grad = tensor
    return parameter


def loop(tensor):
    ring = [tensor]
    ring.append(ring)
    return ring


WAYS = {
    "attribute": Plain,
    "slot": Slotted,
    "slot of a base": Child,
    "key": lambda tensor: {tensor: 1},
    "value": lambda tensor: {"a": tensor},
    "list": lambda tensor: [None, tensor],
    "tuple": lambda tensor: (3, tensor),
    "set": lambda tensor: {tensor},
    "tensor's attribute": attribute,
    "gradient": gradient,
    "cycle": loop,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("outer", WAYS)
def test_every_way_to_a_tensor_is_found(way, outer):
    if outer in ("key", "set", "tensor's attribute", "gradient", "slot of a base"):
        outer = "list"
    tensor = torch.arange(5.0)
    found = storages_of(WAYS[outer](WAYS[way](tensor)), device=CPU)
    assert tensor.untyped_storage()._cdata in {storage._cdata for storage in found}


def test_modules_classes_and_functions_are_not_entered():
    hidden = torch.zeros(3)
    module = types.ModuleType("module")
    module.tensor = hidden
    kind = type("Kind", (), {"tensor": hidden})

    def function():
        return hidden

    assert storages_of(module, kind, function, kind.__init__, device=CPU) == []


def test_views_and_ties_count_once():
    base = torch.arange(12.0)
    layer, tied = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    tied.weight = layer.weight
    found = storages_of([base, base[3:], base.view(3, 4).t(), layer, tied], device=CPU)
    assert len(found) == 2
    assert total(found) == 12 * 4 + 16 * 4


def test_other_devices_and_layouts_are_left_out():
    assert storages_of(torch.empty(3, device="meta"), device=CPU) == []
    assert storages_of(torch.eye(3).to_sparse(), device=CPU) == []


def test_the_state_of_an_optimizer_is_found():
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    held = total(storages_of(optimizer, device=CPU))
    numbers = 3 * 2 + 2
    # Weights, gradients, two moments, and two counters of steps.
    assert held == 4 * (4 * numbers + 2)


@given(data=st.data(), size=st.integers(1, 40))
def test_own_keeps_values_and_aliasing(data, size):
    array = torch.arange(float(size)).numpy()
    base = torch.from_numpy(array)
    start = data.draw(st.integers(0, size - 1))
    stride = data.draw(st.integers(1, 3))
    tensors = [base, base[start::stride], base.view(1, size).t(), nn.Parameter(base[start:])]
    expected = [tensor.detach().clone() for tensor in tensors]
    assert not any(movable(storage) for storage in storages_of(tensors, device=CPU))
    own(tensors, device=CPU)
    (storage,) = storages_of(tensors, device=CPU)
    assert movable(storage)
    for tensor, values in zip(tensors, expected, strict=True):
        assert torch.equal(tensor, values)
    with torch.no_grad():
        base[start] = -1
    assert float(tensors[1][0]) == float(tensors[3].detach()[0]) == -1
    assert array[start] != -1, "the array is not ours"


def test_own_leaves_alone_what_can_be_moved_or_is_shared():
    mine, shared = torch.zeros(4), torch.zeros(4).share_memory_()
    before = [tensor.data_ptr() for tensor in (mine, shared)]
    own(mine, shared, device=CPU)
    assert [tensor.data_ptr() for tensor in (mine, shared)] == before
    assert not movable(shared.untyped_storage())
    assert len(tensors_of(mine, shared, device=CPU)) == 2
