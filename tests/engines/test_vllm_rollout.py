from types import SimpleNamespace

import pytest
import torch
from conftest import make_prompts

from rlgraph.engines.vllm_rollout import assemble
from rlgraph.errors import EngineError
from rlgraph.testing import check_rollout


class Words:
    """A tokenizer whose special token is 1."""

    def batch_decode(self, rows, skip_special_tokens):
        return [" ".join(str(t) for t in row if t != 1 or not skip_special_tokens) for row in rows]


def answer(tokens, logprobs, reason="stop"):
    kept = None if logprobs is None else SimpleNamespace(logprobs=logprobs)
    return SimpleNamespace(token_ids=tokens, logprobs=kept, finish_reason=reason)


def test_a_hand_made_case():
    prompts = make_prompts(["01", "2"], first_group=7)
    texts = [[2, 3], [4]]
    answers = [
        answer([9, 1], [-0.5, -0.25]),
        answer([1], [-2.0]),
        answer([8, 8, 8], [-1.0, -1.0, 1e-7], "length"),
        # Chosen greedily, and token 0 of the vocabulary is a real token.
        answer([0, 1], None),
    ]
    rollout = assemble(prompts, texts, answers, 2, 5, Words())
    check_rollout(rollout)
    assert rollout.tokens.tolist() == [[2, 3, 9, 1], [2, 3, 1, 0], [4, 8, 8, 8], [4, 0, 1, 0]]
    assert rollout.attention_mask.sum(-1).tolist() == [4, 3, 4, 3]
    assert rollout.action_mask.int().tolist() == [
        [0, 0, 1, 1],
        [0, 0, 1, 0],
        [0, 1, 1, 1],
        [0, 1, 1, 0],
    ]
    assert rollout.logprobs.tolist() == [
        [0, 0, -0.5, -0.25],
        [0, 0, -2, 0],
        [0, -1, -1, 0],
        [0, 0, 0, 0],
    ]
    assert rollout.truncated.tolist() == [False, False, True, False]
    assert rollout.group.tolist() == [7, 7, 8, 8]
    assert rollout.policy_version.tolist() == [5] * 4
    assert list(rollout.response) == ["9", "", "8 8 8", "0"]
    assert [entry["prompt"] for entry in rollout.columns] == ["01", "01", "2", "2"]


def test_rows_do_not_share_their_columns():
    rollout = assemble(make_prompts(["0"]), [[2]], [answer([1], [-1.0])] * 2, 2, 0, Words())
    rollout.columns[0]["prompt"] = "changed"
    assert rollout.columns[1]["prompt"] == "0"


def test_no_prompts():
    rollout = assemble(make_prompts([]), [], [], 3, 0, Words())
    check_rollout(rollout)
    assert rollout.tokens.shape == (0, 0)
    assert rollout.truncated.dtype is torch.bool


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_broken_numbers_do_not_spread(bad):
    answers = [answer([3], [-1.0]), answer([3], [bad])]
    with pytest.raises(EngineError, match=r"row 1.*version 4"):
        assemble(make_prompts(["0"]), [[2]], answers, 2, 4, Words())
