import dataclasses

import pytest
import torch
from conftest import make_prompts, make_rows
from jaxtyping import Float
from torch import Tensor

from rlgraph.engines.protocols import Sampler, Scorer, Trainer, ValueModel, Weights
from rlgraph.engines.transformers import (
    TransformersSampler,
    TransformersScorer,
    TransformersTrainer,
)
from rlgraph.errors import EngineError
from rlgraph.metrics import collect
from rlgraph.records import Rollout
from rlgraph.rows import resize
from rlgraph.settings import PolicyConfig, RunContext, SamplerConfig, TrainerConfig
from rlgraph.testing import check_rollout
from rlgraph.types import Record

CONTEXT = RunContext(seed=5, steps=4)
TEXTS = ["1+2=", "what is 7*8?", "a", "12-3=", "hello."]


def policy_of(path, *, budget=16384, temperature=1.0, sampler=None, **trainer):
    return PolicyConfig(
        path=path,
        temperature=temperature,
        max_tokens_per_micro_batch=budget,
        trainer=TrainerConfig(**({"learning_rate": 1e-4} | trainer)),
        sampler=SamplerConfig(**({"max_new_tokens": 10} | (sampler or {}))),
    )


def policy_gradient(
    logprobs: Float[Tensor, "batch seq"],
    entropy: Float[Tensor, "batch seq"],
    rollout: Rollout,
    advantages: Float[Tensor, " batch"],
) -> Float[Tensor, "batch seq"]:
    ratio = (logprobs - rollout.logprobs).clamp(-2, 2).exp()
    return -ratio * advantages[:, None] - 0.1 * entropy


def squared_error(
    values: Float[Tensor, "batch seq"], returns: Float[Tensor, "batch seq"]
) -> Float[Tensor, "batch seq"]:
    return (values - returns) ** 2


def naive_logits(path, rows):
    """Plain transformers, one row at a time, no padding."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path).double().eval()
    with torch.no_grad():
        return [
            model(input_ids=tokens[real][None]).logits[0]
            for tokens, real in zip(rows.tokens, rows.attention_mask, strict=True)
        ]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_logprobs_equal_those_of_unpadded_single_rows(tiny_model, temperature):
    rows = make_rows(7)
    scorer = TransformersScorer(policy_of(tiny_model, temperature=temperature, budget=40), CONTEXT)
    found = scorer.logprobs(rows)
    assert found.dtype == torch.float32
    assert not found[~rows.action_mask].any()
    for row, logits in enumerate(naive_logits(tiny_model, rows)):
        expected = (logits / temperature).log_softmax(-1)
        for position in rows.action_mask[row].nonzero().squeeze(-1).tolist():
            chosen = expected[position - 1, rows.tokens[row, position]]
            assert float(found[row, position]) == pytest.approx(float(chosen), abs=2e-5)


def test_engines_play_their_roles(tiny_model):
    policy = policy_of(tiny_model)
    trainer = TransformersTrainer(policy, CONTEXT)
    assert isinstance(trainer, Trainer)
    assert isinstance(trainer, Scorer)
    assert isinstance(TransformersScorer(policy, CONTEXT, head="value"), ValueModel)
    assert isinstance(TransformersSampler(policy, CONTEXT), Sampler)


def trained(path, rows, advantages, *, budget=16384, updates=1, **trainer):
    engine = TransformersTrainer(policy_of(path, budget=budget, **trainer), CONTEXT)
    for _ in range(updates):
        engine.train(policy_gradient, rows, {"advantages": advantages})
    return engine.weights().tensors


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_micro_batches_order_padding_and_checkpointing_leave_the_weights_the_same(tiny_model):
    rows, advantages = make_rows(9), torch.linspace(-2, 2, 9)
    expected = trained(tiny_model, rows, advantages)
    order = torch.tensor([4, 0, 8, 2, 6, 1, 7, 3, 5])
    wide = resize(rows, Record(Rollout), rows.tokens.shape[1] + 5)
    variants = {
        "budget 1": trained(tiny_model, rows, advantages, budget=1),
        "budget 50": trained(tiny_model, rows, advantages, budget=50),
        "order": trained(tiny_model, rows[order], advantages[order]),
        "padding": trained(tiny_model, wide, advantages, budget=50),
        "checkpointing": trained(tiny_model, rows, advantages, gradient_checkpointing=True),
    }
    for name, found in variants.items():
        assert largest_difference(found, expected) < 3e-6, name
    untrained = TransformersTrainer(policy_of(tiny_model), CONTEXT).weights().tensors
    assert largest_difference(expected, untrained) > 5e-5


def test_a_step_equals_plain_torch(tiny_model):
    """The same update written out: one padded forward pass, a mean, AdamW."""
    from transformers import AutoModelForCausalLM

    rows, advantages = make_rows(6), torch.linspace(-1, 2, 6)
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
    for _ in range(3):
        everything = model(rows.tokens).logits[:, :-1].log_softmax(-1)
        chosen = everything.gather(-1, rows.tokens[:, 1:, None]).squeeze(-1)
        entropy = -(everything.exp() * everything).sum(-1)
        ratio = (chosen - rows.logprobs[:, 1:]).clamp(-2, 2).exp()
        mask = rows.action_mask[:, 1:]
        loss = (-ratio * advantages[:, None] - 0.1 * entropy)[mask].mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    found = trained(tiny_model, rows, advantages, updates=3)
    assert largest_difference(found, {n: p.detach() for n, p in model.named_parameters()}) < 3e-6


def test_a_spoiled_update_leaves_the_weights_and_the_optimizer_alone(tiny_model):
    rows, good = make_rows(4), torch.ones(4)
    engine = TransformersTrainer(policy_of(tiny_model), CONTEXT)
    engine.train(policy_gradient, rows, {"advantages": good})
    before = {name: tensor.clone() for name, tensor in engine.weights().tensors.items()}
    with collect() as metrics:
        spoiled = torch.tensor([1.0, torch.nan, 1.0, 1.0])
        engine.train(policy_gradient, rows, {"advantages": spoiled})
    assert metrics["policy/skipped_steps"].value == 1
    assert largest_difference(engine.weights().tensors, before) == 0
    assert engine.weights().version == 2
    engine.train(policy_gradient, rows, {"advantages": good})
    assert all(tensor.isfinite().all() for tensor in engine.weights().tensors.values())


def test_a_critic_starts_at_zero_learns_and_is_loaded_again(tiny_model, tmp_path):
    rows = make_rows(8)
    policy = policy_of(tiny_model, learning_rate=3e-3)
    critic = TransformersTrainer(policy, CONTEXT, head="value")
    assert not critic.values(rows).any()
    returns = torch.ones(rows.tokens.shape)
    with collect() as metrics:
        for _ in range(15):
            critic.train(squared_error, rows, {"returns": returns})
    values = critic.values(rows)
    assert float((values[rows.action_mask] - 1).abs().mean()) < 0.3
    assert not values[~rows.action_mask].any()
    assert metrics["critic/loss"].count == 15
    critic.save(str(tmp_path))
    again = TransformersScorer(policy_of(str(tmp_path)), CONTEXT, head="value")
    assert torch.allclose(again.values(rows), values, atol=1e-5)
    with pytest.raises(EngineError, match="value head gives no logprobs"):
        critic.logprobs(rows)


def test_saved_models_load_again(tiny_model, tmp_path):
    rows = make_rows(5)
    engine = TransformersTrainer(policy_of(tiny_model, learning_rate=1e-2), CONTEXT)
    before = engine.logprobs(rows)
    engine.train(policy_gradient, rows, {"advantages": torch.ones(5)})
    engine.save(str(tmp_path))
    scorer = TransformersScorer(policy_of(str(tmp_path)), CONTEXT)
    assert torch.allclose(scorer.logprobs(rows), engine.logprobs(rows), atol=1e-5)
    assert not torch.allclose(before, engine.logprobs(rows), atol=1e-2)
    TransformersSampler(policy_of(str(tmp_path)), CONTEXT).generate(make_prompts(TEXTS[:1]))


def test_what_cannot_be_loaded_or_trained_says_so(tiny_model, tmp_path):
    with pytest.raises(EngineError, match="cannot load a model"):
        TransformersTrainer(policy_of(str(tmp_path / "nothing")), CONTEXT)
    with pytest.raises(EngineError, match="float16"):
        TransformersTrainer(policy_of(tiny_model, dtype="float16"), CONTEXT)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_logprobs_equal_the_scorers(tiny_model, temperature):
    policy = policy_of(tiny_model, temperature=temperature, sampler={"max_sequences": 7})
    rollout = TransformersSampler(policy, CONTEXT).generate(make_prompts(TEXTS), samples=4)
    check_rollout(rollout)
    assert rollout.group.tolist() == [group for group in range(5) for _ in range(4)]
    assert torch.allclose(
        TransformersScorer(policy, CONTEXT).logprobs(rollout), rollout.logprobs, atol=2e-5
    )
    last = rollout.attention_mask.sum(-1) - 1
    ends = rollout.tokens.gather(-1, last[:, None]).squeeze(-1) == 1
    assert torch.equal(ends, ~rollout.truncated)
    lengths = rollout.action_mask.sum(-1)
    assert bool(((lengths == 10) | ends).all())
    assert rollout.columns[4]["prompt"] == TEXTS[1]


def test_samples_do_not_depend_on_how_prompts_are_split(tiny_model):
    def sampler(**settings):
        return TransformersSampler(policy_of(tiny_model, sampler=settings), CONTEXT)

    prompts = make_prompts(TEXTS)
    whole = sampler().generate(prompts, samples=3)
    halves = [sampler(max_sequences=2).generate(prompts[p], samples=3) for p in ([0, 1], [2, 3, 4])]
    assert whole.response == [*halves[0].response, *halves[1].response]
    assert len(set(whole.response)) > 10
    other = TransformersSampler(policy_of(tiny_model), dataclasses.replace(CONTEXT, seed=6))
    assert other.generate(prompts, samples=3).response != whole.response


def test_frequencies_are_those_of_the_distribution(tiny_model):
    policy = policy_of(tiny_model, sampler={"max_new_tokens": 1, "max_sequences": 4000})
    rollout = TransformersSampler(policy, CONTEXT).generate(make_prompts(["1+2="]), samples=4000)
    first = rollout.tokens[:, 4]
    expected = naive_logits(tiny_model, rollout[:1])[0][3].softmax(-1)
    found = torch.bincount(first, minlength=len(expected)) / 4000
    # Five standard errors of a frequency.
    assert bool(((found - expected).abs() < 5 * (expected / 4000).sqrt() + 1e-3).all())


def test_greedy_takes_the_most_probable_token_with_logprob_zero(tiny_model):
    sampler = TransformersSampler(policy_of(tiny_model), CONTEXT)
    rollout = sampler.generate(make_prompts(TEXTS), samples=2, temperature=0, max_new_tokens=4)
    assert not rollout.logprobs.any()
    for row, logits in enumerate(naive_logits(tiny_model, rollout)):
        for position in rollout.action_mask[row].nonzero().squeeze(-1).tolist():
            assert int(logits[position - 1].argmax()) == int(rollout.tokens[row, position])


def test_top_k_and_top_p_renormalise(tiny_model):
    prompts = make_prompts(["1+2="])
    for settings in ({"top_k": 3}, {"top_p": 0.5}):
        policy = policy_of(tiny_model, sampler={"max_new_tokens": 1, **settings})
        rollout = TransformersSampler(policy, CONTEXT).generate(prompts, samples=200)
        logprobs = naive_logits(tiny_model, rollout[:1])[0][3].log_softmax(-1)
        order = logprobs.argsort(descending=True)
        count = 3
        if "top_p" in settings:
            count = 1 + int((logprobs[order].exp().cumsum(-1) < 0.5).sum())
        kept = order[:count]
        assert set(rollout.tokens[:, 4].tolist()) <= set(kept.tolist())
        expected = logprobs - logprobs[kept].logsumexp(-1)
        chosen = expected[rollout.tokens[:, 4]].float()
        assert torch.allclose(rollout.logprobs[:, 4], chosen, atol=2e-5)


def test_new_weights_change_what_is_sampled_and_are_stamped(tiny_model):
    policy = policy_of(tiny_model, learning_rate=1e-2)
    trainer, sampler = TransformersTrainer(policy, CONTEXT), TransformersSampler(policy, CONTEXT)
    prompts = make_prompts(TEXTS)
    rollout = sampler.generate(prompts, samples=2)
    trainer.train(policy_gradient, rollout, {"advantages": torch.ones(10)})
    sampler.load_weights(trainer.weights())
    updated = sampler.generate(prompts, samples=2)
    assert updated.policy_version.tolist() == [1] * 10
    assert torch.allclose(trainer.logprobs(updated), updated.logprobs, atol=2e-5)
    assert not torch.allclose(
        TransformersScorer(policy, CONTEXT).logprobs(updated), updated.logprobs, atol=1e-2
    )


def test_foreign_weights_are_refused_and_nothing_is_copied(tiny_model):
    policy = policy_of(tiny_model)
    sampler = TransformersSampler(policy, CONTEXT)
    tensors = dict(TransformersTrainer(policy, CONTEXT).weights().tensors)
    assert "lm_head.weight" not in tensors
    tensors["model.norm.weight"] = torch.zeros(64)
    with pytest.raises(EngineError, match="unknown other"):
        sampler.load_weights(Weights(1, {**tensors, "other": torch.zeros(1)}))
    lacking = {name: tensor for name, tensor in tensors.items() if "embed" not in name}
    with pytest.raises(EngineError, match=r"lack model\.embed_tokens\.weight"):
        sampler.load_weights(Weights(1, lacking))
    with pytest.raises(EngineError, match=r"misshape model\.norm\.weight"):
        sampler.load_weights(Weights(1, {**tensors, "model.norm.weight": torch.zeros(3)}))
    assert sampler.generate(make_prompts(["a"])).policy_version.tolist() == [0]


def test_no_prompts_give_no_rows_and_bad_prompts_are_named(tiny_model):
    sampler = TransformersSampler(policy_of(tiny_model, sampler={"max_model_len": 8}), CONTEXT)
    assert len(sampler.generate(make_prompts([]))) == 0
    rollout = sampler.generate(make_prompts(["12345"], first_group=3))
    assert int(rollout.action_mask.sum()) <= 3
    with pytest.raises(EngineError, match=r"prompt 1 \(group 1\) has 8 tokens"):
        sampler.generate(make_prompts(["1", "12345678"]))
    with pytest.raises(EngineError, match="samples=0"):
        sampler.generate(make_prompts(["1"]), samples=0)
