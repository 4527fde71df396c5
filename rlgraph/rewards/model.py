"""Scoring with a reward model: a sequence classifier with one output."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rlgraph.engines.sleep import Holdings, Sleepable
from rlgraph.errors import EngineError, RewardError
from rlgraph.metrics import log
from rlgraph.records import Rewards, Rollout
from rlgraph.settings import RunContext


class ModelRewarder(Sleepable):
    """Runs a Hugging Face sequence classifier over whole conversations.

    With a chat template the model sees prompt and response as its messages, else
    the two texts joined. A text longer than the model allows keeps its end.

    Raises:
        RewardError: there is no such model with safetensors weights, or it has no
            trained head with one output.
    """

    def __init__(self, path: str, max_tokens: int, *, scratch: Path = RunContext.scratch) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from rlgraph.builtin import resolve

        self.path = path
        self.max_tokens = max_tokens
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        try:
            folder = resolve(path)
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
            model, report = AutoModelForSequenceClassification.from_pretrained(
                folder, num_labels=1, dtype=dtype, use_safetensors=True, output_loading_info=True
            )
        except (OSError, ValueError, RuntimeError, EngineError) as error:
            raise RewardError(f"reward model '{path}' cannot be loaded: {error}") from error
        if missing := sorted(report["missing_keys"]):
            raise RewardError(
                f"'{path}' is no reward model: its checkpoint has no {', '.join(missing)}; "
                "a sequence classifier with one output is needed"
            )
        self.model: Any = model.to(self.device).eval()
        name = f"the ModelRewarder of '{path}'"
        self._holdings = Holdings(name, self.model, device=self.device, scratch=scratch)

    def score(self, rollout: Rollout) -> Rewards:
        """The model's output for each row, ``[batch]``, float32.

        Raises:
            EngineError: asleep.
            RewardError: a conversation, but the model has no chat template.
        """
        self._holdings.require_awake("score")
        rows = list(zip(rollout.columns, rollout.response, strict=True))
        ids = [self._encode(columns.get("prompt"), response) for columns, response in rows]
        scores = torch.empty(len(ids))
        for batch in self._batches([len(row) for row in ids]):
            scores[batch] = self._forward([ids[row] for row in batch])
        return Rewards.of(scores)

    def _encode(self, prompt: Any, response: str) -> list[int]:
        if self.tokenizer.chat_template:
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            text = self.tokenizer.apply_chat_template(
                [*messages, {"role": "assistant", "content": response}], tokenize=False
            )
            ids = self.tokenizer(text, add_special_tokens=False).input_ids
        elif isinstance(prompt, str):
            ids = self.tokenizer(prompt + response).input_ids
        else:
            raise RewardError(
                f"prompts are chat messages, but reward model '{self.path}' has no chat template"
            )
        limit = getattr(self.model.config, "max_position_embeddings", None) or len(ids)
        log("reward/truncated", float(len(ids) > limit), kind="sum")
        return ids[-limit:]

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Row numbers, alike in length, so that ``max_tokens`` padded tokens go together."""
        # Without a padding token the model cannot tell where a row ends.
        padded = self.model.config.pad_token_id is not None
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lengths.__getitem__):
            if batch and (not padded or (len(batch) + 1) * lengths[row] > self.max_tokens):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    @torch.no_grad()
    def _forward(self, rows: list[list[int]]) -> torch.Tensor:
        width = max(map(len, rows))
        pad = self.model.config.pad_token_id or 0
        tokens = torch.tensor([ids + [pad] * (width - len(ids)) for ids in rows])
        lengths = torch.tensor([len(ids) for ids in rows])
        output = self.model(
            input_ids=tokens.to(self.device),
            attention_mask=(torch.arange(width) < lengths[:, None]).long().to(self.device),
        )
        return output.logits.squeeze(-1).float().cpu()
