"""AdamW over a model's parameters."""

from torch import nn
from torch.optim import AdamW

from rlgraph.settings import TrainerConfig


def adamw(model: nn.Module, config: TrainerConfig) -> AdamW:
    """Decoupled weight decay on matrices only (Loshchilov & Hutter, 2019).

    Biases, norms and embeddings are left out, and so is an output head that shares
    its weights with the embeddings.
    """
    spared = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            matrix = parameter.dim() >= 2 and id(parameter) not in spared
            (decayed if matrix else kept).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    # One fused kernel a group: on CPU a third of the time of the default.
    return AdamW(
        [group for group in groups if group["params"]],
        lr=0.0,  # each step comes with its own
        betas=config.betas,
        fused=True,
    )
