"""From prompts to the token ids of the model that answers them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlgraph.data.checks import Prompt
from rlgraph.data.settings import DataConfig
from rlgraph.errors import DataError, EngineError


class PromptTokenizer:
    """A model's tokenizer, with its chat template or without.

    Raises:
        DataError: there is no tokenizer at ``path``, or it lacks a chat template
            that the settings ask for.
    """

    def __init__(self, path: str, config: DataConfig) -> None:
        from transformers import AutoTokenizer

        from rlgraph.builtin import resolve

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(resolve(path))
        except (OSError, ValueError, EngineError) as error:
            raise DataError(f"the tokenizer of '{path}' cannot be loaded: {error}") from error
        self.path = path
        has_template = bool(self.tokenizer.chat_template)
        self.uses_template = (
            has_template if config.chat_template == "auto" else config.chat_template
        )
        if self.uses_template and not has_template:
            raise DataError(
                f"data.chat_template is on, but the tokenizer of '{path}' has no chat template"
            )
        if config.system_prompt is not None and not self.uses_template:
            raise DataError(
                f"data.system_prompt needs a chat template, and none is used with '{path}'; "
                "write it into the prompts instead"
            )
        self.system_prompt = config.system_prompt

    def render(self, prompt: Prompt) -> str:
        """The text that the model sees.

        Raises:
            DataError: the prompt is a list of messages and no chat template is used.
            ValueError: the chat template refuses the messages.
        """
        if not self.uses_template:
            if isinstance(prompt, str):
                return prompt
            raise DataError(
                f"a prompt is a list of chat messages, but no chat template is used with "
                f"'{self.path}'; give prompts as text, or use a model with a chat template"
            )
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        if self.system_prompt is not None and messages[0]["role"] != "system":
            messages = [{"role": "system", "content": self.system_prompt}, *messages]
        try:
            # transformers runs templates in jinja's sandbox.
            return self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:
            # Templates may fail in any way on messages that they do not expect.
            raise ValueError(f"the chat template refuses it: {error!r}") from error

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Token ids of rendered prompts, ``int32``.

        A chat template writes its special tokens itself; plain text gets the
        beginning-of-sequence token if the tokenizer adds one, never an end.
        """
        if not texts:
            return []
        first: list[int] = []
        if not self.uses_template:
            begin = self.tokenizer.bos_token_id
            first = [begin] if begin is not None and begin in self.tokenizer("").input_ids else []
        encoded = self.tokenizer(list(texts), add_special_tokens=False).input_ids
        return [np.array([*first, *ids], dtype=np.int32) for ids in encoded]
