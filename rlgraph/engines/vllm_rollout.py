"""From vLLM's completions to a rollout."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlgraph.errors import EngineError
from rlgraph.records import Prompts, Rollout


def assemble(
    prompts: Prompts,
    texts: Sequence[list[int]],
    answers: Sequence[Any],
    samples: int,
    version: int,
    tokenizer: Any,
) -> Rollout:
    """Prompts and responses side by side, right-padded with 0.

    ``texts`` are the prompts' token ids without padding, ``answers`` vLLM's
    ``CompletionOutput``, ``samples`` of them a prompt, in prompt order. Without
    log-probabilities they were chosen greedily, and get 0.

    Raises:
        EngineError: a log-probability is not finite.
    """
    responses = [list(answer.token_ids) for answer in answers]
    starts = np.repeat(np.array([len(text) for text in texts], dtype=np.int64), samples)
    ends = starts + np.array([len(response) for response in responses], dtype=np.int64)
    width = int(ends.max(initial=0))
    tokens = np.zeros((len(answers), width), dtype=np.int64)
    logprobs = np.zeros((len(answers), width), dtype=np.float32)
    for row, (answer, response) in enumerate(zip(answers, responses, strict=True)):
        start, end = starts[row], ends[row]
        tokens[row, :start], tokens[row, start:end] = texts[row // samples], response
        if answer.logprobs is not None:
            logprobs[row, start:end] = answer.logprobs.logprobs
    if not np.isfinite(logprobs).all():
        row = int(np.argwhere(~np.isfinite(logprobs))[0, 0])
        raise EngineError(
            f"row {row}: vLLM gave a log-probability that is not finite; the weights of "
            f"version {version} are broken, or diverged in training"
        )
    columns = np.arange(width)
    real = columns < ends[:, None]
    return Rollout(
        tokens=torch.from_numpy(tokens),
        attention_mask=torch.from_numpy(real),
        action_mask=torch.from_numpy(real & (columns >= starts[:, None])),
        # Rounding can lift that of a certain token above 0.
        logprobs=torch.from_numpy(np.minimum(logprobs, 0)),
        group=prompts.group.cpu().repeat_interleave(samples),
        truncated=torch.tensor([a.finish_reason == "length" for a in answers], dtype=torch.bool),
        policy_version=torch.full((len(answers),), version, dtype=torch.long),
        # A tokenizer takes an empty batch for one empty text.
        response=tokenizer.batch_decode(responses, skip_special_tokens=True) if responses else [],
        columns=[dict(entry) for entry in prompts.columns for _ in range(samples)],
        batch_size=[len(answers)],
    )
