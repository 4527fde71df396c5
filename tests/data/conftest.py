from collections.abc import Callable
from pathlib import Path

import pytest
from characters import CHAT_TEMPLATE, character_tokenizer


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
