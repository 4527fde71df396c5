import math

import pytest
import torch

from rlgraph.engines.protocols import Rewarder, Sampler, Scorer, Trainer, ValueModel
from rlgraph.metrics import collect
from rlgraph.nodes import clipped_policy_loss, value_loss
from rlgraph.testing import FakeCritic, FakePolicy, FakeRewarder, check_rollout, fake_prompts


def test_they_play_their_roles() -> None:
    for role in (Sampler, Scorer, Trainer):
        assert isinstance(FakePolicy(), role)
    for role in (ValueModel, Trainer):
        assert isinstance(FakeCritic(), role)
    assert isinstance(FakeRewarder(len), Rewarder)


def test_one_seed_gives_one_rollout() -> None:
    first, second = (FakePolicy(seed=3).generate(fake_prompts(4), samples=2) for _ in range(2))
    assert first.tokens.equal(second.tokens)
    assert not first.tokens.equal(FakePolicy(seed=4).generate(fake_prompts(4), samples=2).tokens)


@pytest.mark.parametrize("temperature", [None, 0.0, 0.7])
@pytest.mark.parametrize("limit", [0, 1, 5])
def test_rollouts_are_valid(temperature: float | None, limit: int) -> None:
    rollout = FakePolicy().generate(
        fake_prompts(5), samples=3, temperature=temperature, max_new_tokens=limit
    )
    check_rollout(rollout)
    lengths = rollout.action_mask.sum(-1)
    assert int(lengths.max()) <= limit
    last = rollout.tokens[torch.arange(15), rollout.attention_mask.sum(-1) - 1]
    if limit:
        assert rollout.truncated.equal(last != 1)
        # The end-of-sequence token is an action like any other.
        assert (rollout.tokens == 1)[rollout.action_mask].sum() == (~rollout.truncated).sum()


def test_logprobs_are_of_the_distribution_that_was_sampled_from() -> None:
    policy = FakePolicy()
    with torch.no_grad():
        policy.table.normal_(generator=torch.Generator().manual_seed(0))
    rollout = policy.generate(fake_prompts(5), samples=3, temperature=0.5)
    policy.load_weights(type(policy.weights())(0, {"table": policy.table.detach() / 0.5}))
    torch.testing.assert_close(policy.logprobs(rollout), rollout.logprobs)


def test_weights_travel_with_their_version() -> None:
    trainer, sampler = FakePolicy(), FakePolicy()
    rollout = trainer.generate(fake_prompts(3), samples=4)
    trainer.train(clipped_policy_loss, rollout, {"advantages": rollout.action_mask.float()})
    sampler.load_weights(trainer.weights())
    assert sampler.table.equal(trainer.table)
    assert sampler.generate(fake_prompts(1)).policy_version.tolist() == [1]


def test_a_critic_learns_the_returns() -> None:
    rollout = FakePolicy().generate(fake_prompts(8), samples=4)
    critic = FakeCritic(learning_rate=2.0)
    target = torch.full_like(rollout.logprobs, 3.0).where(rollout.action_mask, 0.0)
    inputs = {"returns": target, "old_values": critic.values(rollout), "value_clip": None}
    critic.train(value_loss, rollout, inputs, epochs=200)
    learned = critic.values(rollout)[rollout.action_mask]
    torch.testing.assert_close(learned, torch.full_like(learned, 3.0), atol=0.1, rtol=0)


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        # Rows of 1 and 2 action tokens with terms 1 and 2, 3.
        ("token-mean", 6 / 3),
        ("seq-mean-token-mean", (1 + 2.5) / 2),
        ("seq-mean-token-sum", (1 + 5) / 2),
        ("seq-sum-constant", 6 / (2 * 4)),
    ],
)
def test_aggregations_by_hand(aggregation: str, expected: float) -> None:
    rollout = FakePolicy(max_new_tokens=2, seed=1).generate(fake_prompts(2, length=1))
    rollout = rollout.replace(action_mask=torch.tensor([[False, True, False], [False, True, True]]))
    terms = torch.tensor([[0.0, 1.0, 0.0], [0.0, 2.0, 3.0]])

    def loss(logprobs: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return wanted + 0 * logprobs

    with collect() as metrics:
        FakePolicy().train(
            loss, rollout, {"wanted": terms}, aggregation=aggregation, constant_length=4
        )
    assert metrics["train/loss"].value == pytest.approx(expected)


def test_a_rewarder_may_fail_on_a_row() -> None:
    rollout = FakePolicy().generate(fake_prompts(2))
    answers = iter([math.nan, 1])
    assert FakeRewarder(lambda tokens: next(answers)).score(rollout).valid.tolist() == [False, True]
