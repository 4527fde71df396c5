"""Scoring mathematical answers by what they mean, not how they are written."""

import functools
import logging
from typing import Any

from rlgraph.errors import RewardError

logger = logging.getLogger(__name__)


def equal_answer(
    prompts: list[Any], responses: list[str], *, answer: list[Any]
) -> list[float | None]:
    """1 where the response's final answer equals the reference answer, else 0.

    Answers are found and compared by the math-verify library: LaTeX (``\\boxed`` or
    between dollar signs) or plain numbers. Of a reference such as ``... #### 72``
    only what follows the marks counts. A row whose reference cannot be parsed has
    no score.

    Raises:
        RewardError: math-verify is not installed.
    """
    try:
        from math_verify import parse, verify
    except ImportError as error:
        raise RewardError(
            "reward.function math_verify needs the math-verify package: pip install 'rlgraph[math]'"
        ) from error
    scores: list[float | None] = []
    for response, reference in zip(responses, answer, strict=True):
        gold = _reference(str(reference))
        if not gold:
            scores.append(None)
            continue
        # The library's own time limits need the main thread; the call has one of its own.
        found = parse(response, parsing_timeout=None)
        scores.append(float(verify(list(gold), found, timeout_seconds=None)))
    return scores


@functools.lru_cache(maxsize=65536)
def _reference(text: str) -> tuple[Any, ...]:
    from math_verify import parse

    final = text.rsplit("####")[-1].strip()
    marked = final if "$" in final or "\\boxed" in final else f"\\boxed{{{final}}}"
    gold = tuple(parse(marked, parsing_timeout=None))
    if not gold:
        logger.warning("math_verify cannot parse the reference answer %r; no score for it", text)
    return gold
