from pathlib import Path
from typing import Any

import pytest
import torch
from rollouts import rollout_of
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)

from rlgraph import RewardError
from rlgraph.errors import EngineError
from rlgraph.metrics import collect
from rlgraph.rewards import RewardConfig, build_rewarder
from rlgraph.rewards.model import ModelRewarder
from rlgraph.settings import RunContext

TEMPLATE = "{% for m in messages %}{{ '[' + m.role[0] + ']' + m.content }}{% endfor %}"
PROMPTS = ["1+1", "what is two plus two?", "x", "say nothing"]
RESPONSES = ["2", "four", "a long answer that goes on", ""]
COLUMNS = [{"prompt": prompt} for prompt in PROMPTS]


def ids(text: str) -> list[int]:
    return [ord(character) - 32 + 2 for character in text]


def save(folder: Path, labels: int = 1, template: str | None = None, **config: Any) -> Path:
    characters = ["<pad>", "<unk>", *map(chr, range(32, 127))]
    vocabulary = {character: number for number, character in enumerate(characters)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", chat_template=template
    ).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": len(characters)}
    settings = {"pad_token_id": 0, "max_position_embeddings": 64, **config}
    model_config = LlamaConfig(**sizes, **heads, **settings, num_labels=labels)
    kind = LlamaForSequenceClassification if labels else LlamaForCausalLM
    kind(model_config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("judge")))


def one_by_one(path: str, texts: list[str]) -> list[float]:
    """The slow reference: each text alone, nothing padded."""
    model = LlamaForSequenceClassification.from_pretrained(path, dtype=torch.float32)
    with torch.no_grad():
        return [float(model(input_ids=torch.tensor([ids(text)])).logits) for text in texts]


@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_scores_do_not_depend_on_the_batches(model_path: str, budget: int) -> None:
    config = RewardConfig(model=model_path, max_tokens_per_batch=budget)
    rewards = build_rewarder(config, RunContext()).score(rollout_of(RESPONSES, COLUMNS))
    expected = one_by_one(model_path, [p + r for p, r in zip(PROMPTS, RESPONSES, strict=True)])
    assert rewards.valid.all()
    assert rewards.scores.dtype == torch.float32
    assert rewards.scores.tolist() == pytest.approx(expected, abs=1e-5)
    assert len({round(score, 4) for score in expected}) == 4


def test_a_model_without_a_padding_token_scores_rows_alone(tmp_path: Path) -> None:
    path = str(save(tmp_path, pad_token_id=None))
    rewards = ModelRewarder(path, 10_000).score(rollout_of(RESPONSES, COLUMNS))
    expected = one_by_one(path, [p + r for p, r in zip(PROMPTS, RESPONSES, strict=True)])
    assert rewards.scores.tolist() == pytest.approx(expected, abs=1e-5)


def test_conversations_go_through_the_chat_template(tmp_path: Path) -> None:
    path = str(save(tmp_path, template=TEMPLATE))
    chat = [{"role": "system", "content": "sums"}, {"role": "user", "content": "1+1"}]
    rollout = rollout_of(["2", "3"], [{"prompt": "1+1"}, {"prompt": chat}])
    expected = one_by_one(path, ["[u]1+1[a]2", "[s]sums[u]1+1[a]3"])
    assert ModelRewarder(path, 100).score(rollout).scores.tolist() == pytest.approx(
        expected, abs=1e-5
    )


def test_messages_need_a_chat_template(model_path: str) -> None:
    rollout = rollout_of(["2"], [{"prompt": [{"role": "user", "content": "1+1"}]}])
    with pytest.raises(RewardError, match="has no chat template"):
        ModelRewarder(model_path, 100).score(rollout)


def test_a_text_that_is_too_long_keeps_its_end_and_is_counted(model_path: str) -> None:
    rollout = rollout_of(["b" * 60, "c"], [{"prompt": "a" * 10}, {"prompt": "a"}])
    with collect() as metrics:
        scores = ModelRewarder(model_path, 1000).score(rollout).scores
    expected = one_by_one(model_path, ["a" * 4 + "b" * 60, "ac"])
    assert scores.tolist() == pytest.approx(expected, abs=1e-5)
    assert metrics["reward/truncated"].value == 1


def test_it_sleeps(model_path: str, tmp_path: Path) -> None:
    rewarder = ModelRewarder(model_path, 100, scratch=tmp_path)
    rollout = rollout_of(RESPONSES, COLUMNS)
    before = rewarder.score(rollout).scores.tolist()
    rewarder.sleep()
    assert rewarder.bytes_held == 0
    with pytest.raises(EngineError, match=f"score: the ModelRewarder of '{model_path}' is asleep"):
        rewarder.score(rollout)
    rewarder.wake()
    assert rewarder.score(rollout).scores.tolist() == before


def test_no_rows(model_path: str) -> None:
    assert len(ModelRewarder(model_path, 100).score(rollout_of([]))) == 0


def test_models_that_cannot_score(tmp_path: Path) -> None:
    with pytest.raises(RewardError, match="cannot be loaded"):
        ModelRewarder(str(tmp_path / "nowhere"), 100)
    with pytest.raises(RewardError, match=r"no reward model.*score\.weight"):
        ModelRewarder(str(save(tmp_path / "language_model", labels=0)), 100)
    with pytest.raises(RewardError, match="cannot be loaded"):
        ModelRewarder(str(save(tmp_path / "three_classes", labels=3)), 100)


def test_only_safetensors_are_read(tmp_path: Path) -> None:
    folder = save(tmp_path)
    weights = LlamaForSequenceClassification.from_pretrained(folder).state_dict()
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(RewardError, match="safetensors"):
        ModelRewarder(str(folder), 100)
