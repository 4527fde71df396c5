"""A data set of prompts, checked and tokenised, in memory."""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlgraph.data.checks import BadRows, Prompt, check_rows
from rlgraph.data.files import read_rows
from rlgraph.data.settings import TASK_PREFIX, DataConfig, StreamSettings
from rlgraph.data.tasks import read_task
from rlgraph.data.tokens import PromptTokenizer
from rlgraph.errors import DataError

logger = logging.getLogger(__name__)

Rows = list[tuple[str, dict[str, Any]]]
"""Where each row is, and its columns."""


@dataclass(frozen=True)
class PromptDataset:
    """Rows with their prompts as token ids."""

    columns: list[dict[str, Any]]
    tokens: list[np.ndarray]
    """``int32``, one array a row, none empty."""
    bad: int = 0
    """Rows left out because they could not be used."""
    long: int = 0
    """Prompts over the limit: left out or truncated."""

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal prompts in equal order, in equal tokens."""
        digest = hashlib.blake2b(digest_size=8)
        for ids in self.tokens:
            digest.update(len(ids).to_bytes(4, "little"))
            digest.update(ids.astype("<i4").tobytes())
        return digest.hexdigest()

    @classmethod
    def load(cls, settings: StreamSettings) -> "PromptDataset":
        """Read, check, split and tokenise.

        Raises:
            DataError: the source, a row (unless such are skipped) or the tokenizer
                cannot be used, or no rows are left.
        """
        config = settings.data
        source = _source(settings)
        bad = BadRows(source, config.on_bad_row)
        rows = _read(settings, source, bad)
        total = len(rows) + bad.count
        tokenizer = PromptTokenizer(settings.tokenizer, config)
        rows = _side(rows, settings, source)
        columns, tokens, long = _tokenise(rows, tokenizer, config, bad)
        bad.summarise(total)
        if long:
            done = "left out" if config.on_long == "skip" else "cut to their last tokens"
            logger.warning(
                "%s: %d of %d prompts are longer than %d tokens and %s",
                *(source, long, len(rows), config.max_prompt_tokens, done),
            )
        if not columns:
            raise DataError(
                f"{source}: no prompt is left of {len(rows)}; {long} are longer than "
                f"{config.max_prompt_tokens} tokens (data.max_prompt_tokens, data.on_long)"
            )
        return cls(columns, tokens, bad.count, long)


def _source(settings: StreamSettings) -> str:
    config = settings.data
    return config.eval_source if settings.held_out and config.eval_source else config.source


def _read(settings: StreamSettings, source: str, bad: BadRows) -> Rows:
    config = settings.data
    if source.startswith(TASK_PREFIX):
        task = source.removeprefix(TASK_PREFIX)
        found = read_task(task, config.size, config.options)
    else:
        use_eval = settings.held_out and config.eval_source is not None
        found = read_rows(source, config.eval_split if use_eval else config.split)
    return check_rows(found, config.prompt_key, config.answer_key, bad)


def _side(rows: Rows, settings: StreamSettings, source: str) -> Rows:
    """The rows to train on, or those that are held out of them."""
    config, held_out = settings.data, settings.held_out
    if source.startswith(TASK_PREFIX):
        from rlgraph.builtin.heldout import is_held_out

        rows = [row for row in rows if is_held_out(row[1]["question"]) == held_out]
    elif config.eval_source is None:
        kept = held_out_prompts((row[1]["prompt"] for row in rows), config.eval_size)
        rows = [row for row in rows if (_key(row[1]["prompt"]) in kept) == held_out]
    if held_out:
        rows = _distinct(rows)[: config.eval_size]
    if not rows:
        side = "to evaluate on" if held_out else "to train on"
        raise DataError(
            f"{source} is too small: nothing is left {side} once a part is held out; "
            "add rows, or name held-out rows with --data.eval-source"
        )
    return rows


def held_out_prompts(prompts: Iterable[Prompt], most: int) -> set[str]:
    """Keys of the prompts of a file that are kept for evaluation.

    Up to ``most``, and at most a tenth of the distinct ones (but one of two): those
    whose hashes are smallest. So the choice depends neither on a seed nor on the
    order of the rows, and two rows with one prompt are on the same side.
    """
    keys = {_key(prompt) for prompt in prompts}
    tenth = max(len(keys) // 10, 1) if len(keys) > 1 else 0
    ranked = sorted(keys, key=lambda key: hashlib.blake2b(key.encode()).digest())
    return set(ranked[: min(most, tenth)])


def _key(prompt: Prompt) -> str:
    return json.dumps(prompt, sort_keys=True)


def _distinct(rows: Rows) -> Rows:
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    for row in rows:
        first.setdefault(_key(row[1]["prompt"]), row)
    return list(first.values())


def _tokenise(
    rows: Rows, tokenizer: PromptTokenizer, config: DataConfig, bad: BadRows
) -> tuple[list[dict[str, Any]], list[np.ndarray], int]:
    rendered: list[tuple[str, dict[str, Any], str]] = []
    for where, columns in rows:
        try:
            rendered.append((where, columns, tokenizer.render(columns["prompt"])))
        except ValueError as error:
            bad.add(where, str(error))
    encoded = tokenizer.encode([text for _, _, text in rendered])
    kept, tokens, long = [], [], 0
    for (where, columns, _), ids in zip(rendered, encoded, strict=True):
        if not len(ids):
            bad.add(where, "the prompt gives no tokens")
            continue
        if len(ids) > config.max_prompt_tokens:
            long += 1
            if config.on_long == "skip":
                continue
            ids = ids[-config.max_prompt_tokens :]
        kept.append(columns)
        tokens.append(ids)
    return kept, tokens, long
