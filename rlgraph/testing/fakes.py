"""Models of a few numbers, for tests: deterministic, instant, and really learning."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rlgraph.engines.protocols import Aggregation, Loss, Weights
from rlgraph.metrics import log
from rlgraph.ports import LossPorts
from rlgraph.records import Prompts, Rewards, Rollout, Sequences


def fake_prompts(
    count: int, *, length: int = 3, vocabulary: int = 8, first_group: int = 0
) -> Prompts:
    """``count`` prompts of one to ``length`` tokens, a group each."""
    position = torch.arange(length)
    lengths = torch.arange(count) % length + 1
    real = position < lengths[:, None]
    tokens = (torch.arange(count)[:, None] + position) % (vocabulary - 2) + 2
    return Prompts(
        tokens=tokens.where(real, 0),
        attention_mask=real,
        group=torch.arange(first_group, first_group + count),
        columns=[{"prompt": f"prompt {i}"} for i in range(count)],
        batch_size=[count],
    )


class _Table:
    """A linear model of the previous token alone, trained by plain gradient descent."""

    def __init__(self, columns: int, vocabulary: int, learning_rate: float) -> None:
        self.vocabulary = vocabulary
        self.learning_rate = learning_rate
        self.version = 0
        shape = (vocabulary, columns) if columns > 1 else (vocabulary,)
        self.table = torch.zeros(shape, requires_grad=True)

    def at_previous_token(self, rows: Sequences) -> Tensor:
        """The table's entry for the token before each position; position 0 sees token 0."""
        return self.table[rows.tokens.roll(1, -1).clamp(0, self.vocabulary - 1)]

    def outputs(self, rows: Sequences) -> dict[str, Tensor]:
        raise NotImplementedError

    def train(
        self,
        loss: Loss,
        rows: Sequences,
        inputs: Mapping[str, Any],
        *,
        epochs: int = 1,
        minibatches: int = 1,
        aggregation: Aggregation = "token-mean",
        constant_length: int | None = None,
    ) -> None:
        """As :class:`rlgraph.engines.protocols.Trainer`; minibatches are cut in row order."""
        ports = LossPorts.of(loss)
        for _ in range(epochs):
            for index in torch.arange(len(rows)).chunk(minibatches):
                part = rows[index]
                given = {
                    name: value[index] if isinstance(value, Tensor) and value.dim() else value
                    for name, value in inputs.items()
                }
                found = self.outputs(part)
                given |= {name: found[name] for name in ports.outputs}
                if ports.rows:
                    given[ports.rows] = part
                total = _reduce(loss(**given), part.action_mask, aggregation, constant_length)
                (gradient,) = torch.autograd.grad(total, self.table)
                with torch.no_grad():
                    self.table -= self.learning_rate * gradient
                log("train/loss", total)
        self.version += 1

    def weights(self) -> Weights:
        """A copy of the table."""
        return Weights(self.version, {"table": self.table.detach().clone()})

    def load_weights(self, weights: Weights) -> None:
        """Take over another's table."""
        with torch.no_grad():
            self.table.copy_(weights.tensors["table"])
        self.version = weights.version

    def save(self, folder: str) -> None:
        """Write the table to ``folder/table.pt``."""
        torch.save(self.table.detach(), f"{folder}/table.pt")


class FakePolicy(_Table):
    """A bigram model: each token depends on the one before it. Sampler, Scorer, Trainer.

    Token 0 is padding and token 1 ends a sequence; both can be sampled, as with
    a real model. A new one samples uniformly. What it samples is determined by
    ``seed`` and the number of calls before.

    >>> policy = FakePolicy()
    >>> rollout = policy.generate(fake_prompts(2), samples=3)
    >>> rollout.group.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self,
        *,
        vocabulary: int = 8,
        max_new_tokens: int = 6,
        learning_rate: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(vocabulary, vocabulary, learning_rate)
        self.max_new_tokens = max_new_tokens
        self.generator = torch.Generator().manual_seed(seed)

    def outputs(self, rows: Sequences) -> dict[str, Tensor]:
        """``logprobs`` and ``entropy`` at the action tokens, with gradient."""
        everything = self.at_previous_token(rows).log_softmax(-1)
        chosen = everything.gather(-1, rows.tokens[..., None]).squeeze(-1)
        entropy = -(everything.exp() * everything).sum(-1)
        mask = rows.action_mask
        return {"logprobs": chosen.where(mask, 0.0), "entropy": entropy.where(mask, 0.0)}

    def logprobs(self, rows: Sequences) -> Tensor:
        """As :class:`rlgraph.engines.protocols.Scorer`."""
        return self.outputs(rows)["logprobs"].detach()

    def generate(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
    ) -> Rollout:
        """As :class:`rlgraph.engines.protocols.Sampler`."""
        limit = self.max_new_tokens if max_new_tokens is None else max_new_tokens
        starts = prompts.attention_mask.sum(-1).repeat_interleave(samples)
        count, row = len(starts), torch.arange(len(starts))
        prompt = prompts.tokens.repeat_interleave(samples, 0)
        tokens = torch.cat([prompt, torch.zeros(count, limit, dtype=torch.long)], 1)
        acted = torch.zeros(tokens.shape, dtype=torch.bool)
        logprobs = torch.zeros(tokens.shape)
        running = torch.ones(count, dtype=torch.bool)
        for step in range(limit):
            here = starts + step
            token, logprob = self._sample(tokens[row, here - 1], temperature)
            tokens[row, here] = token.where(running, 0)
            logprobs[row, here] = logprob.where(running, 0.0)
            acted[row, here] = running
            running = running & (token != 1)
        lengths = starts + acted.sum(-1)
        width = int(lengths.max()) if count else 0
        tokens, acted = tokens[:, :width], acted[:, :width]
        return Rollout(
            tokens=tokens,
            attention_mask=torch.arange(width) < lengths[:, None],
            action_mask=acted,
            logprobs=logprobs[:, :width],
            group=prompts.group.repeat_interleave(samples),
            truncated=running,
            policy_version=torch.full((count,), self.version),
            response=[
                " ".join(map(str, t[a].tolist())) for t, a in zip(tokens, acted, strict=True)
            ],
            columns=[dict(column) for column in prompts.columns for _ in range(samples)],
            batch_size=[count],
        )

    def _sample(self, previous: Tensor, temperature: float | None) -> tuple[Tensor, Tensor]:
        """A next token for each previous one, and its log-probability."""
        scores = self.table.detach()[previous]
        scores = (scores / (1.0 if temperature is None else temperature or 1.0)).log_softmax(-1)
        if temperature == 0:
            token = scores.argmax(-1)
        else:
            token = torch.multinomial(scores.exp(), 1, generator=self.generator).squeeze(-1)
        return token, scores.gather(-1, token[:, None]).squeeze(-1)


class FakeCritic(_Table):
    """A value for each previous token. ValueModel and Trainer."""

    def __init__(self, *, vocabulary: int = 8, learning_rate: float = 1.0) -> None:
        super().__init__(1, vocabulary, learning_rate)

    def outputs(self, rows: Sequences) -> dict[str, Tensor]:
        """``values`` at the action tokens, with gradient."""
        return {"values": self.at_previous_token(rows).where(rows.action_mask, 0.0)}

    def values(self, rows: Sequences) -> Tensor:
        """As :class:`rlgraph.engines.protocols.ValueModel`."""
        return self.outputs(rows)["values"].detach()


class FakeRewarder:
    """Scores a row by a function of its action tokens; NaN makes the row invalid.

    >>> count_fours = FakeRewarder(lambda tokens: tokens.count(4))
    >>> count_fours.score(FakePolicy().generate(fake_prompts(3))).valid.tolist()
    [True, True, True]
    """

    def __init__(self, function: Callable[[list[int]], float]) -> None:
        self.function = function

    def score(self, rollout: Rollout) -> Rewards:
        """As :class:`rlgraph.engines.protocols.Rewarder`."""
        pairs = zip(rollout.tokens, rollout.action_mask, strict=True)
        return Rewards.of([float(self.function(tokens[mask].tolist())) for tokens, mask in pairs])


def _reduce(
    terms: Tensor, mask: Tensor, aggregation: Aggregation, constant_length: int | None
) -> Tensor:
    """The four aggregations, written for one whole minibatch."""
    lengths = mask.sum(-1)
    rows = (lengths > 0).sum().clamp(min=1)
    if terms.dim() == 1:
        return terms.sum() / rows
    match aggregation:
        case "token-mean":
            return terms.sum() / lengths.sum().clamp(min=1)
        case "seq-mean-token-mean":
            return (terms.sum(-1) / lengths.clamp(min=1)).sum() / rows
        case "seq-mean-token-sum":
            return terms.sum() / rows
        case "seq-sum-constant":
            if constant_length is None:
                raise ValueError("aggregation seq-sum-constant needs constant_length")
            return terms.sum() / (rows * constant_length)
