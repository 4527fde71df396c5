"""A tokenizer with a token for each character, with and without a chat template."""

# First of all: it hides packages that keep transformers from being imported.
import rlgraph  # noqa: F401, I001
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ '[' + m.role[0] + ']' + m.content }}"
    "{% endfor %}{% if add_generation_prompt %}[a]{% endif %}"
)


def character_tokenizer(
    begins: bool = False, chat_template: str | None = None
) -> PreTrainedTokenizerFast:
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
