"""Running a model over rows without training it."""

import torch
from torch import Tensor

from rlgraph.engines.protocols import Ranks, Sequences
from rlgraph.errors import EngineError
from rlgraph.training.backend import OUTPUTS, Forward, Head
from rlgraph.training.outputs import Actions, named_outputs
from rlgraph.training.packing import EMPTY, MicroBatch, pack, row_lengths


def check_rows(rows: Sequences) -> None:
    """Raise an EngineError for rows that no model can be run over."""
    if rows.tokens.shape[1] and bool(rows.action_mask[:, 0].any()):
        row = int(rows.action_mask[:, 0].nonzero()[0])
        raise EngineError(
            f"row {row}: its first token is an action, but nothing comes before it; "
            "a row needs a prompt of at least one token"
        )
    stray = rows.action_mask & ~rows.attention_mask
    if bool(stray.any()):
        raise EngineError(f"row {int(stray.any(-1).nonzero()[0])}: an action token is padding")
    holes = rows.attention_mask[:, 1:] & ~rows.attention_mask[:, :-1]
    if bool(holes.any()):
        row = int(holes.any(-1).nonzero()[0])
        raise EngineError(f"row {row}: padding before a real token; rows are right-padded")


def actions_of(rows: Sequences, batch: MicroBatch, device: torch.device) -> Actions:
    """The tokens of a micro-batch on the model's device; one dummy token if it is empty."""
    if not batch.rows:
        tokens = torch.zeros(1, 1, dtype=torch.long, device=device)
        return Actions(tokens, torch.zeros_like(tokens, dtype=torch.bool))
    index = torch.tensor(batch.rows)
    tokens = rows.tokens[index, : batch.width].to(device)
    return Actions(tokens, rows.action_mask[index, : batch.width].to(device))


@torch.no_grad()
def score(
    model: Forward,
    rows: Sequences,
    *,
    head: Head,
    output: str,
    temperature: float,
    budget: int,
    ranks: Ranks,
) -> Tensor:
    """One output of the model for every action token: ``[batch seq]`` float32, 0 elsewhere.

    All ``ranks`` call this together, each with its own rows, and run equally many
    forward passes; a single process passes :class:`~rlgraph.training.backend.Alone`.

    Raises:
        EngineError: the model has no such output, or the rows are malformed.
    """
    if output not in OUTPUTS[head]:
        raise EngineError(f"a model with a {head} head gives no {output}")
    check_rows(rows)
    result = torch.zeros(rows.tokens.shape, dtype=torch.float32)
    acting = rows.action_mask.any(-1).nonzero().squeeze(-1).tolist()
    lengths = row_lengths(rows.attention_mask)
    batches = pack(acting, lengths, budget)
    passes = int(ranks.max(torch.tensor(len(batches))))
    for batch in batches + [EMPTY] * (passes - len(batches)):
        actions = actions_of(rows, batch, model.device)
        raw = model.forward(actions.inputs, actions.positions)
        if batch.rows:
            values = named_outputs(raw, actions, head, temperature, (output,))[output]
            result[torch.tensor(batch.rows), : batch.width] = values.cpu()
    return result.to(rows.tokens.device)
