"""Sampling token by token from a Hugging Face model, with a key-value cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

# Rows that have ended are taken out of the cache once they make up this share of it;
# doing it at once would copy the whole cache for every row that ends.
ENDED = 0.25


@dataclass(frozen=True)
class Sampling:
    """From which distribution tokens are drawn."""

    temperature: float
    top_p: float
    top_k: int
    ends: tuple[int, ...]
    """End-of-sequence tokens."""

    def draw(self, logits: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens ``[batch]`` and their log-probabilities, float32, from ``[batch vocabulary]``.

        A token is the point where the cumulative distribution passes the row's
        uniform number. Greedy tokens (temperature 0) have log-probability 0: that
        distribution has no other outcome.
        """
        if self.temperature == 0:
            chosen = logits.argmax(-1)
            return chosen, torch.zeros(len(chosen), device=logits.device)
        scores = self._kept(logits.float() / self.temperature).log_softmax(-1)
        cumulative = scores.double().exp().cumsum(-1)
        points = (uniforms * cumulative[:, -1]).unsqueeze(-1)
        # right=True: the first token beyond the point, so never one of probability 0.
        chosen = torch.searchsorted(cumulative, points, right=True)
        return chosen.squeeze(-1), scores.gather(-1, chosen).squeeze(-1)

    def _kept(self, scores: Tensor) -> Tensor:
        """Scores with the tokens outside of top-k and top-p at minus infinity."""
        if 0 < self.top_k < scores.shape[-1]:
            least = scores.topk(self.top_k).values[:, -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
        if self.top_p < 1:
            ordered, order = scores.sort(-1, descending=True)
            mass = ordered.softmax(-1)
            # Dropped if the more probable tokens have enough mass without it.
            dropped = (mass.cumsum(-1) - mass) >= self.top_p
            scores = scores.masked_fill(dropped.scatter(-1, order, dropped), -torch.inf)
        return scores


@dataclass
class Responses:
    """What was sampled, one entry a row; the tensors are on CPU and right-padded with 0."""

    tokens: Tensor
    logprobs: Tensor
    lengths: Tensor
    ended: Tensor
    """Did the row end by itself?"""


def uniforms(keys: Sequence[tuple[int, ...]], count: int) -> Tensor:
    """``[len(keys), count]`` float64 in [0, 1), each row a function of its key alone."""
    rows = [np.random.default_rng(np.random.SeedSequence(key)).random(count) for key in keys]
    return torch.from_numpy(np.stack(rows)) if rows else torch.zeros(0, count, dtype=torch.float64)


@torch.inference_mode()
def decode(
    model: PreTrainedModel,
    prompts: Sequence[Tensor],
    owners: Sequence[int],
    limits: Sequence[int],
    points: Tensor,
    sampling: Sampling,
) -> Responses:
    """Sample one response a row.

    Row ``i`` answers ``prompts[owners[i]]`` (unpadded token ids) with at most
    ``limits[i]`` tokens, the end-of-sequence token included, and draws them with
    ``points[i]``. A prompt is read once, however many rows answer it.
    """
    device = next(model.parameters()).device
    rows, longest = len(owners), max(limits)
    result = Responses(
        torch.zeros(rows, longest, dtype=torch.long),
        torch.zeros(rows, longest),
        torch.zeros(rows, dtype=torch.long),
        torch.zeros(rows, dtype=torch.bool),
    )
    ends = torch.tensor(sampling.ends, device=device)
    bounds, draws = torch.tensor(limits, device=device), points.to(device)
    batch = _Batch(model, prompts, torch.tensor(owners, device=device))
    for step in range(longest):
        tokens, logprobs = sampling.draw(batch.logits, draws[batch.rows, step])
        ended = torch.isin(tokens, ends)
        live = batch.rows[batch.alive].cpu()
        result.tokens[live, step] = tokens[batch.alive].cpu()
        result.logprobs[live, step] = logprobs[batch.alive].cpu()
        result.lengths[live] = step + 1
        result.ended[live] = ended[batch.alive].cpu()
        batch.alive &= ~ended & (bounds[batch.rows] > step + 1)
        if not bool(batch.alive.any()):
            break
        batch.advance(tokens)
    return result


class _Batch:
    """Rows that are decoded together, left-padded so that they end at the same column."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[Tensor], owners: Tensor) -> None:
        self._model = model
        self._cache = DynamicCache(config=model.config)
        width = max(len(prompt) for prompt in prompts)
        tokens = torch.zeros(len(prompts), width, dtype=torch.long)
        mask = torch.zeros(len(prompts), width, dtype=torch.bool)
        for row, prompt in enumerate(prompts):
            tokens[row, width - len(prompt) :] = prompt
            mask[row, width - len(prompt) :] = True
        # Without padding no mask is needed, and attention is faster without one.
        self._mask: Tensor | None = None if bool(mask.all()) else mask.to(owners.device)
        self.rows = torch.arange(len(owners), device=owners.device)
        self.alive = torch.ones_like(self.rows, dtype=torch.bool)
        self.logits = self._run(tokens.to(owners.device))
        self._select(owners)

    def advance(self, tokens: Tensor) -> None:
        """Append each row's token and run the model over it."""
        if int(self.alive.sum()) <= (1 - ENDED) * len(self.alive):
            keep = self.alive.nonzero().squeeze(-1)
            tokens, self.rows, self.alive = tokens[keep], self.rows[keep], self.alive[keep]
            self._select(keep)
        if self._mask is not None:
            self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], 1)
        self.logits = self._run(tokens.unsqueeze(-1))

    def _select(self, index: Tensor) -> None:
        self._cache.batch_select_indices(index)
        self.logits = self.logits[index]
        self._mask = None if self._mask is None else self._mask[index]

    def _run(self, tokens: Tensor) -> Tensor:
        """Logits after the last of the new tokens, ``[batch vocabulary]``."""
        padded: dict[str, Any] = {}
        if self._mask is not None:
            positions = (self._mask.long().cumsum(-1) - 1).clamp(min=0)
            padded = {
                "attention_mask": self._mask.long(),
                "position_ids": positions[:, -tokens.shape[1] :],
            }
        output = self._model(
            input_ids=tokens,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
            **padded,
        )
        return output.logits[:, -1]
