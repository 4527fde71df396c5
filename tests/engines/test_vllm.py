"""The sampler against real vLLM on CPU, with transformers as the independent reference."""

import json
import shutil

import pytest
import torch
from conftest import CHARACTERS, make_prompts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("vllm")

from transformers import AutoTokenizer
from vllm_engines import (
    CLOSE,
    EOS,
    TEXTS,
    both_heads,
    build,
    jolt,
    naive_logprobs,
    same,
    weights_of,
)

from rlgraph.engines.protocols import Sampler, Weights
from rlgraph.engines.vllm import VllmSampler
from rlgraph.errors import EngineError
from rlgraph.settings import PolicyConfig, RunContext
from rlgraph.testing import check_rollout
from rlgraph.training.model import checkpoint_tensors


def test_it_is_a_sampler(engine):
    assert isinstance(engine, Sampler)


def test_rows_side_by_side_in_prompt_order(engine):
    prompts = make_prompts(TEXTS, first_group=40)
    rollout = engine.generate(prompts, samples=3)
    check_rollout(rollout)
    assert rollout.group.tolist() == [40 + i for i in range(5) for _ in range(3)]
    assert [entry["prompt"] for entry in rollout.columns] == [t for t in TEXTS for _ in range(3)]
    for row, columns in enumerate(rollout.columns):
        size = len(columns["prompt"])
        answer = rollout.tokens[row][rollout.action_mask[row]].tolist()
        assert rollout.tokens[row, :size].tolist() == [
            CHARACTERS.index(character) for character in columns["prompt"]
        ]
        assert rollout.action_mask[row].nonzero()[0] == size
        assert rollout.response[row] == "".join(CHARACTERS[t] for t in answer if t > EOS)
        assert bool(rollout.truncated[row]) == (answer[-1] != EOS)
        assert EOS not in answer[:-1]
    assert len({tuple(row) for row in rollout.tokens.tolist()}) == 15, "samples must differ"


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    texts=st.lists(st.text("0123456789+-=", min_size=1, max_size=70), max_size=6),
    samples=st.integers(1, 3),
    tokens=st.integers(1, 12),
)
def test_every_rollout_keeps_its_promises(engine, texts, samples, tokens):
    rollout = engine.generate(make_prompts(texts), samples=samples, max_new_tokens=tokens)
    check_rollout(rollout)
    assert len(rollout) == len(texts) * samples
    assert (rollout.action_mask.sum(-1) >= 1).all()
    assert (rollout.action_mask.sum(-1) <= tokens).all()


@both_heads
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_logprobs_are_those_of_transformers(engine, trainer, temperature):
    rollout = engine.generate(make_prompts(TEXTS), samples=4, temperature=temperature)
    expected = naive_logprobs(trainer, rollout, temperature)
    torch.testing.assert_close(rollout.logprobs, expected, atol=CLOSE, rtol=0)


def test_logprobs_are_of_the_truncated_distribution(path, trainer):
    engine = build(path, top_k=4)
    rollout = engine.generate(make_prompts(TEXTS), samples=8, temperature=2.0)
    check_rollout(rollout)
    expected = naive_logprobs(trainer, rollout, 2.0, keep=4)
    torch.testing.assert_close(rollout.logprobs, expected, atol=CLOSE, rtol=0)
    engine.close()


def test_first_tokens_have_the_frequencies_that_their_logprobs_claim(engine, trainer):
    prompts = make_prompts(["1+2="])
    rollout = engine.generate(prompts, samples=4000, max_new_tokens=1)
    with torch.no_grad():
        chances = trainer(input_ids=prompts.tokens).logits[0, -1].softmax(-1)
    found = torch.bincount(rollout.tokens[:, -1], minlength=len(chances)) / 4000
    # Four standard deviations of a frequency, for each of the tokens.
    assert ((found - chances).abs() < 4 * (chances * (1 - chances) / 4000).sqrt() + 1e-3).all()


def test_greedy_takes_the_most_probable_token(engine, trainer):
    rollout = engine.generate(make_prompts(TEXTS), samples=2, temperature=0)
    check_rollout(rollout)
    assert not rollout.logprobs.any()
    for row, real in enumerate(rollout.attention_mask):
        tokens, acted = rollout.tokens[row][real], rollout.action_mask[row][real]
        with torch.no_grad():
            best = trainer(input_ids=tokens[None]).logits[0].argmax(-1)
        assert torch.equal(best[:-1][acted[1:]], tokens[1:][acted[1:]])


def test_responses_may_end_at_once_later_or_never(engine):
    rollout = engine.generate(make_prompts(["a"]), samples=400, max_new_tokens=4)
    sizes = rollout.action_mask.sum(-1)
    ended = ~rollout.truncated
    at_once = ended & (sizes == 1)
    assert at_once.any()
    assert (ended & (sizes > 1)).any()
    assert rollout.truncated.any()
    assert (sizes[rollout.truncated] == 4).all()
    assert {rollout.response[int(row)] for row in at_once.nonzero()} == {""}


def test_end_of_sequence_may_be_the_padding_token(tiny_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    for name in ("config.json", "generation_config.json"):
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | {"eos_token_id": 0, "pad_token_id": 0}))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = tokenizer.pad_token
    tokenizer.save_pretrained(folder)
    engine = build(str(folder))
    rollout = engine.generate(make_prompts(["a", "1+2="]), samples=200)
    check_rollout(rollout)
    last = rollout.attention_mask.sum(-1) - 1
    ends = rollout.tokens[range(400), last]
    ended = ~rollout.truncated
    assert (rollout.tokens.eq(0) & rollout.action_mask).sum() == ended.sum() > 0
    assert (ends[ended] == 0).all()
    engine.close()


def test_a_response_ends_where_the_row_is_full(engine):
    prompts = make_prompts(["1" * 120])
    rollout = engine.generate(prompts, samples=20, max_new_tokens=30)
    check_rollout(rollout)
    assert rollout.tokens.shape[1] == 128
    assert (rollout.action_mask.sum(-1)[rollout.truncated] == 8).all()
    assert rollout.truncated.any()


def test_prompts_that_cannot_be_answered(engine):
    with pytest.raises(
        EngineError, match=r"prompt 1 \(group 1\) has 128 tokens; between 1 and 127"
    ):
        engine.generate(make_prompts(["a", "1" * 128]))
    with pytest.raises(EngineError, match=r"prompt 0 \(group 0\) has 0 tokens"):
        engine.generate(make_prompts(["", "a"]))
    unknown = make_prompts(["ab"])
    unknown.tokens[0, 1] = 1000
    with pytest.raises(EngineError, match=r"prompt 0.*outside of 0"):
        engine.generate(unknown)
    check_rollout(engine.generate(make_prompts(["a"])))


@pytest.mark.parametrize(
    "bad",
    [{"samples": 0}, {"max_new_tokens": 0}]
    + [{"temperature": number} for number in (-1.0, 0.001, float("nan"))],
)
def test_arguments_out_of_range(engine, bad):
    with pytest.raises(EngineError, match="cannot generate"):
        engine.generate(make_prompts(["a"]), **bad)


def test_no_prompts_give_no_rows(engine):
    full = engine.generate(make_prompts(["a"]))
    empty = engine.generate(make_prompts(["a"])[:0], samples=4)
    check_rollout(empty)
    assert len(empty) == 0
    for name in ("tokens", "attention_mask", "action_mask", "logprobs", "group", "truncated"):
        assert getattr(empty, name).dtype == getattr(full, name).dtype


def test_the_same_seed_gives_the_same_rows(engine, path):
    prompts = make_prompts(TEXTS)
    first = engine.generate(prompts, samples=3)
    assert same(first, engine.generate(prompts, samples=3))
    twin, other = build(path), build(path, seed=6)
    assert torch.equal(first.tokens, twin.generate(prompts, samples=3).tokens)
    assert not torch.equal(first.tokens, other.generate(prompts, samples=3).tokens)
    twin.close()
    other.close()


def test_other_groups_and_other_versions_draw_anew(engine, trainer):
    first = engine.generate(make_prompts(["a"]), samples=8)
    other = engine.generate(make_prompts(["a"], first_group=1), samples=8)
    engine.load_weights(weights_of(trainer, 1))
    later = engine.generate(make_prompts(["a"]), samples=8)
    assert len({r.tokens.tolist().__repr__() for r in (first, other, later)}) == 3


def test_rows_do_not_depend_on_how_prompts_are_split(engine):
    prompts = make_prompts(TEXTS)
    whole = engine.generate(prompts, samples=3)
    for order in ([4, 2], [0, 1, 3], [2]):
        part = engine.generate(prompts[torch.tensor(order)], samples=3)
        rows = torch.tensor([3 * prompt + sample for prompt in order for sample in range(3)])
        width = part.tokens.shape[1]
        assert torch.equal(part.tokens, whole.tokens[rows, :width])
        torch.testing.assert_close(part.logprobs, whole.logprobs[rows, :width], atol=1e-5, rtol=0)


def test_more_rows_than_are_decoded_at_a_time(engine, path):
    prompts = make_prompts(TEXTS)
    narrow = build(path, max_sequences=4)
    wide, few = (e.generate(prompts, samples=5) for e in (engine, narrow))
    assert torch.equal(wide.tokens, few.tokens)
    narrow.close()


@both_heads
def test_new_weights_arrive_every_time(engine, trainer):
    prompts = make_prompts(TEXTS)
    for version in (1, 2, 3, 4):
        jolt(trainer, seed=version)
        engine.load_weights(weights_of(trainer, version))
        engine.verify(weights_of(trainer, version))
        rollout = engine.generate(prompts, samples=4)
        expected = naive_logprobs(trainer, rollout)
        torch.testing.assert_close(rollout.logprobs, expected, atol=CLOSE, rtol=0)
        assert rollout.policy_version.tolist() == [version] * 20


def test_verify_finds_what_did_not_arrive(engine, trainer):
    with torch.no_grad():
        trainer.model.layers[1].self_attn.k_proj.bias[3] += 1
    with pytest.raises(EngineError, match=r"1 of \d+ tensors.*layers\.1\.self_attn\.k_proj\.bias"):
        engine.verify(weights_of(trainer, 1))


@both_heads
def test_the_head_counts_as_arrived_only_if_it_computes_with_the_new_weights(engine, trainer):
    with torch.no_grad():
        trainer.get_output_embeddings().weight[7] += 1
    with pytest.raises(EngineError, match=r"lm_head\.weight"):
        engine.verify(weights_of(trainer, 1))


@both_heads
def test_weights_of_another_model_are_refused(engine, trainer):
    before = engine.generate(make_prompts(TEXTS))
    tensors = checkpoint_tensors(trainer)
    name = "model.layers.0.mlp.up_proj.weight"
    for bad in (
        {key: value for key, value in tensors.items() if key != name},
        {**tensors, name: tensors[name][:-1]},
        {**tensors, "model.layers.9.mlp.up_proj.weight": tensors[name]},
    ):
        with pytest.raises(EngineError, match=r"mlp\.up_proj\.weight has shape"):
            engine.load_weights(Weights(9, bad))
    assert same(before, engine.generate(make_prompts(TEXTS)))


def test_weights_that_are_not_numbers(engine, trainer):
    with torch.no_grad():
        trainer.model.norm.weight.fill_(torch.nan)
    engine.load_weights(weights_of(trainer, 3))
    with pytest.raises(EngineError, match=r"not finite.*version 3"):
        engine.generate(make_prompts(["a"]))


def test_a_closed_engine(tiny_model):
    engine = build(tiny_model)
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="is closed"):
        engine.generate(make_prompts(["a"]))


def test_torch_is_left_as_it_was(engine):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(threads)


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(EngineError, match="cannot load"):
        build(str(tmp_path / "nothing"))


def test_transfer_between_gpus_needs_gpus(tiny_model):
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(EngineError, match="between GPUs only"):
        VllmSampler(PolicyConfig(path=tiny_model), RunContext(), transfer="ipc")
