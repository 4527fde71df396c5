"""Is a rollout what nodes may rely on?"""

from torch import Tensor

from rlgraph.records import Rollout
from rlgraph.types import Record


def check_rollout(rollout: Rollout) -> None:
    """Hold a rollout against every promise that :class:`~rlgraph.records.Rollout` makes.

    Raises:
        AssertionError: one is broken; names the field, the first bad row and,
            where there is one, the position.
    """
    sizes = {"batch": len(rollout)}
    for name, kind in Record(Rollout).fields().items():
        if fault := kind.fault(getattr(rollout, name), sizes):
            raise AssertionError(f"rollout.{name} should be {kind}, {fault}")
    for name in ("response", "columns"):
        if len(getattr(rollout, name)) != len(rollout):
            entries = len(getattr(rollout, name))
            raise AssertionError(f"rollout.{name} has {entries} entries for {len(rollout)} rows")

    real, acted, logprobs = rollout.attention_mask, rollout.action_mask, rollout.logprobs
    _forbid(real[:, 1:] & ~real[:, :-1], "attention_mask", "has a gap; pad on the right only", 1)
    _forbid(~real[:, :1], "attention_mask", "has no real token at its start")
    _forbid(rollout.tokens.ne(0) & ~real, "tokens", "has a token other than 0 in its padding")
    _forbid(rollout.tokens < 0, "tokens", "has a negative token")
    _forbid(acted & ~real, "action_mask", "marks padding")
    _forbid(acted[:, :1], "action_mask", "marks the first token, which nothing can predict")
    _forbid(logprobs.ne(0) & ~acted, "logprobs", "is not 0 where action_mask is False")
    _forbid(~logprobs.isfinite(), "logprobs", "is not finite")
    _forbid(logprobs > 0, "logprobs", "is positive: a probability above 1")
    _forbid(rollout.policy_version[:, None] < 0, "policy_version", "is negative")


def _forbid(bad: Tensor, field: str, fault: str, offset: int = 0) -> None:
    if bad.any():
        row, position = (int(index) for index in bad.nonzero()[0])
        raise AssertionError(f"rollout.{field} row {row}, position {position + offset}: {fault}")
