"""Where prompts come from: the settings, and the handle that a graph wires."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rlgraph.engines.protocols import PromptStream
from rlgraph.errors import DataError
from rlgraph.models import Handle, Resident

TASK_PREFIX = "reasoning_gym:"
DEMO = f"{TASK_PREFIX}basic_arithmetic"
DEMO_OPTIONS = (
    "min_terms=2",
    "max_terms=2",
    "min_digits=1",
    "max_digits=2",
    'operators=["+"]',
    "allow_parentheses=false",
    "allow_negation=false",
)
"""Sums of two numbers below 100."""


@dataclass(frozen=True)
class DataConfig:
    """Which prompts are used, and how they become tokens."""

    source: str = DEMO
    """A jsonl, json, csv or parquet file, a folder, a hub data set or reasoning_gym:TASK."""
    split: str = "train"
    """Split of a folder or a hub data set."""
    prompt_key: str = "prompt"
    """Column with the prompt: text, or a list of chat messages."""
    answer_key: str | None = "answer"
    """Column with the reference answer; None if there is none."""
    task_options: tuple[str, ...] | None = None
    """Options of the reasoning_gym task, key=value each. The default task has easy ones preset."""
    size: int = 10_000
    """Questions that a reasoning_gym task makes; about a tenth is held out."""
    eval_source: str | None = None
    """Held-out rows, written like source. Default: held out of source."""
    eval_split: str = "test"
    """Split of eval_source."""
    eval_size: int = 200
    """Most prompts to hold out; of a file or a hub data set, at most a tenth is."""
    chat_template: bool | Literal["auto"] = "auto"
    """Put prompts into the tokenizer's chat template; auto: if it has one."""
    system_prompt: str | None = None
    """Put before every prompt that has no system message; needs a chat template."""
    max_prompt_tokens: int = 1024
    """Longest prompt, in tokens, chat template included."""
    on_long: Literal["skip", "truncate"] = "skip"
    """What happens to a longer one; truncate keeps its last tokens."""
    shuffle: bool = True
    """Draw in a new random order in each epoch."""
    on_bad_row: Literal["skip", "stop"] = "stop"
    """What happens to a row that cannot be used; either way it is named."""

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("eval_size", 0), ("max_prompt_tokens", 1)):
            if (given := getattr(self, name)) < least:
                raise DataError(f"data.{name} is {given}; it must be at least {least}")

    @property
    def options(self) -> dict[str, Any]:
        """The task's options by name.

        Raises:
            DataError: one is not written as ``key=value``.
        """
        if self.task_options is None:
            return parse_options(DEMO_OPTIONS if self.source == DEMO else ())
        return parse_options(self.task_options)

    def __call__(self, tokenizer: str, name: str = "prompts") -> "PromptSource":
        """The handle of the training prompts, in tokens of the model at path ``tokenizer``."""
        return PromptSource(name, StreamSettings(self, tokenizer))

    def held_out(self, tokenizer: str, name: str = "held_out_prompts") -> "PromptSource":
        """The handle of the prompts that are kept for evaluation; always in the same order.

        Raises:
            DataError: ``eval_size`` is 0.
        """
        if not self.eval_size:
            raise DataError(
                "nothing is held out: data.eval_size is 0; set --data.eval-size, "
                "or do without an evaluation: --evaluation ''"
            )
        return PromptSource(name, StreamSettings(self, tokenizer, held_out=True))


@dataclass(frozen=True)
class StreamSettings:
    """What a stream of prompts is built from."""

    data: DataConfig
    tokenizer: str
    """Path of the model whose tokens are wanted."""
    held_out: bool = False


@dataclass(frozen=True)
class PromptSource(Handle):
    """A data set that prompts are drawn from."""

    settings: StreamSettings

    @property
    def roles(self) -> Mapping[type, Resident]:
        """PromptStream only."""
        return {PromptStream: Resident(self.name, "prompts", self.settings)}


def parse_options(options: tuple[str, ...]) -> dict[str, Any]:
    """``key=value`` strings as a dict; values are JSON or Python literals, else text.

    Raises:
        DataError: an option has no ``=``.

    >>> parse_options(("max_terms=2", "allow_negation=false", "style=plain"))
    {'max_terms': 2, 'allow_negation': False, 'style': 'plain'}
    """
    parsed = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key.strip():
            raise DataError(f"data.task_options: '{option}' is not written as key=value")
        parsed[key.strip()] = _literal(value.strip())
    return parsed


def _literal(text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text
