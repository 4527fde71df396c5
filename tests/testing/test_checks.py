import pytest
import torch

from rlgraph.records import Rollout
from rlgraph.testing import FakePolicy, check_rollout, fake_prompts


@pytest.fixture
def rollout() -> Rollout:
    """Two rows of one and two prompt tokens and one or two action tokens, and a column to spare."""
    good = FakePolicy(max_new_tokens=2, seed=1).generate(fake_prompts(2, length=2))
    check_rollout(good)
    assert good.tokens.shape == (2, 4)
    assert not good.attention_mask[0, 3]
    return good


def changed(tensor: torch.Tensor, row: int, position: int, value: float) -> torch.Tensor:
    copy = tensor.clone()
    copy[row, position] = value
    return copy


@pytest.mark.parametrize(
    ("field", "row", "position", "value", "message"),
    [
        ("attention_mask", 1, 2, False, "attention_mask row 1, position 3: has a gap"),
        ("attention_mask", 0, 0, False, "attention_mask row 0, position 1: has a gap"),
        ("tokens", 0, 3, 5, "tokens row 0, position 3: has a token other than 0"),
        ("tokens", 0, 0, -1, "tokens row 0, position 0: has a negative token"),
        ("action_mask", 0, 3, True, "action_mask row 0, position 3: marks padding"),
        ("action_mask", 1, 0, True, "action_mask row 1, position 0: marks the first token"),
        ("logprobs", 1, 0, -1.0, "logprobs row 1, position 0: is not 0 where"),
        ("logprobs", 0, 1, float("nan"), "logprobs row 0, position 1: is not finite"),
        ("logprobs", 0, 1, 0.5, "logprobs row 0, position 1: is positive"),
    ],
)
def test_names_what_is_broken_and_where(
    rollout: Rollout, field: str, row: int, position: int, value: float, message: str
) -> None:
    broken = changed(getattr(rollout, field), row, position, value)
    with pytest.raises(AssertionError, match=message):
        check_rollout(rollout.replace(**{field: broken}))


def test_types_are_held_against_the_record(rollout: Rollout) -> None:
    with pytest.raises(AssertionError, match=r"rollout.logprobs should be Float\[batch seq\], got"):
        check_rollout(rollout.replace(logprobs=rollout.tokens))
    with pytest.raises(AssertionError, match="but seq is"):
        check_rollout(rollout.replace(logprobs=rollout.logprobs[:, :-1]))


def test_an_empty_rollout_is_fine(rollout: Rollout) -> None:
    check_rollout(rollout[torch.arange(0)])
