import torch
from torch import nn

from rlgraph.settings import TrainerConfig
from rlgraph.training.optimizer import adamw


class Model(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.layer = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 5, bias=False)
        if tied:
            self.head.weight = self.embed.weight


def decays(model):
    optimizer = adamw(model, TrainerConfig(weight_decay=0.1, betas=(0.8, 0.9)))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert all(group["betas"] == (0.8, 0.9) for group in optimizer.param_groups)
    return {
        names[id(parameter)]: group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def test_only_matrices_decay():
    found = decays(Model(tied=False))
    assert {name for name, decay in found.items() if decay} == {"layer.weight", "head.weight"}
    assert set(found) == {name for name, _ in Model(tied=False).named_parameters()}


def test_a_tied_head_is_an_embedding():
    assert {name for name, decay in decays(Model(tied=True)).items() if decay} == {"layer.weight"}


def test_frozen_parameters_are_left_out():
    model = Model(tied=False)
    model.layer.requires_grad_(False)
    assert not any(name.startswith("layer") for name in decays(model))
    assert isinstance(adamw(model, TrainerConfig()), torch.optim.AdamW)
