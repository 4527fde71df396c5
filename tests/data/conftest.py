from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ '[' + m.role[0] + ']' + m.content }}"
    "{% endfor %}{% if add_generation_prompt %}[a]{% endif %}"
)


def character_tokenizer(begins: bool = False, chat_template: str | None = None) -> PreTrainedTokenizerFast:
    characters = ["<pad>", "<bos>", "<eos>", "<unk>", *map(chr, range(32, 127))]
    vocabulary = {character: number for number, character in enumerate(characters)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    if begins:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        chat_template=chat_template,
    )


def ids(text: str) -> list[int]:
    """What the character tokenizer gives for plain text."""
    return [ord(character) - 32 + 4 for character in text]


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("plain")
    character_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("chatty")
    character_tokenizer(begins=True, chat_template=CHAT_TEMPLATE).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Adds tokens at both ends of a text."""
    folder = tmp_path_factory.mktemp("beginning")
    character_tokenizer(begins=True).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., str]:
    """Write a text file; gives its path."""

    def write(*content: str, name: str = "rows.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in content))
        return str(path)

    return write
