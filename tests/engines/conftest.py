"""A tiny random model in Hugging Face format, and rows to run it over."""

from pathlib import Path

import pytest
import torch

import rlgraph  # noqa: F401  (before transformers: hides extensions that do not load)
from rlgraph.records import Prompts, Rollout

CHARACTERS = ["<pad>", "<eos>", *"0123456789+-*= abcdefghijklmnopqrstuvwxyz?."]


def make_tiny_model(folder: Path, *, tied: bool = True) -> Path:
    """Qwen2, by default with tied embeddings, and a tokenizer of one token a character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    ids = {character: number for number, character in enumerate(CHARACTERS)}
    characters = Tokenizer(models.WordLevel(ids, unk_token="<pad>"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    characters.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(CHARACTERS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=128,
        tie_word_embeddings=tied,
        max_position_embeddings=128,
        # Far from uniform, so that mistakes show.
        initializer_range=0.3,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def untied_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model(tmp_path_factory.mktemp("untied"), tied=False))


def make_prompts(texts: list[str], first_group: int = 0) -> Prompts:
    """Prompts in the tiny model's characters."""
    rows = [[CHARACTERS.index(character) for character in text] for text in texts]
    width = max(map(len, rows), default=0)
    padded = [[*row, *[0] * (width - len(row))] for row in rows]
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    return Prompts(
        tokens=torch.tensor(padded, dtype=torch.long).reshape(len(rows), width),
        attention_mask=torch.arange(width) < lengths[:, None],
        group=torch.arange(first_group, first_group + len(rows)),
        columns=[{"prompt": text} for text in texts],
        batch_size=[len(rows)],
    )


def make_rows(count: int, seed: int = 0) -> Rollout:
    """Random ragged rows: prompt, actions, sometimes an observation and actions again."""
    generator = torch.Generator().manual_seed(seed)

    def below(limit: int) -> int:
        return int(torch.randint(limit, (), generator=generator))

    masks = []
    for _ in range(count):
        mask = [False] * (1 + below(9)) + [True] * (1 + below(7))
        masks.append(mask + ([False] * 2 + [True] * 2 if below(2) else []))
    width = max(map(len, masks), default=1)
    lengths = torch.tensor([len(mask) for mask in masks], dtype=torch.long)
    real = torch.arange(width) < lengths[:, None]
    padded = [mask + [False] * (width - len(mask)) for mask in masks]
    acted = torch.tensor(padded, dtype=torch.bool).reshape(count, width)
    tokens = torch.randint(2, len(CHARACTERS), real.shape, generator=generator)
    noise = torch.randn(real.shape, generator=generator)
    return Rollout(
        tokens=tokens * real,
        attention_mask=real,
        action_mask=acted,
        logprobs=(-4 + 0.1 * noise).where(acted, 0.0),
        group=torch.arange(count),
        truncated=torch.zeros(count, dtype=torch.bool),
        policy_version=torch.zeros(count, dtype=torch.long),
        response=[""] * count,
        columns=[{}] * count,
        batch_size=[count],
    )


@pytest.fixture(scope="module")
def path(request, tiny_model, untied_model):
    return untied_model if getattr(request, "param", "tied") == "untied" else tiny_model


@pytest.fixture(scope="module")
def shared(path):
    """A vLLM engine."""
    from vllm_engines import build

    engine = build(path, cache=256)
    yield engine
    engine.close()


@pytest.fixture
def engine(shared, path):
    """Awake, with the weights of its checkpoint."""
    from transformers import AutoModelForCausalLM
    from vllm_engines import weights_of

    shared.wake()
    shared.load_weights(weights_of(AutoModelForCausalLM.from_pretrained(path), 0))
    return shared


@pytest.fixture
def trainer(path):
    """A model of the trainer's, to be changed at will."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path).eval()
