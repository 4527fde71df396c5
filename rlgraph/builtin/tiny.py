"""A Qwen2 model of a million parameters that reads and writes characters.

It is brought up on the demo's task, additions of two numbers below 100, in two
phases of supervised learning. In the first it learns to add. In the second it
learns a bad habit: it mostly stops before the last digit. What is left for
reinforcement learning is what it does for large models too: to bring out what the
model can do but mostly does not. Held-out questions appear in neither phase.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from rlgraph.builtin.heldout import is_held_out

LEARNING_RATE = 2e-4

RECIPE: dict[str, Any] = {
    "version": 4,
    "hidden_size": 128,
    "layers": 2,
    "heads": 4,
    "intermediate_size": 1152,
    "steps": 1000,
    "habit_steps": 100,
    "habit": 0.7,
    "batch": 64,
    "learning_rate": 2e-3,
    "seed": 1,
}
"""All that determines the weights."""

SPECIAL = ["<pad>", "<eos>", "<unk>", "<answer>"]
CHARACTERS = ["\n", *map(chr, range(32, 127))]


def build(folder: Path) -> None:
    """Train the model and write it with its tokenizer; about a minute and a half on one core."""
    tokenizer = make_tokenizer()
    model = make_model(RECIPE)
    threads = torch.get_num_threads()
    # One thread: the same sums in the same order on every machine, and hardly slower.
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        train(model, tokenizer, RECIPE)
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_tokenizer() -> Qwen2Tokenizer:
    """One token a character; a chat template that ends a question with ``<answer>``.

    Qwen2's own tokenizer without a merge, since transformers gives that class to
    every Qwen2 model, whatever was saved with it.
    """
    written = {" ": "\u0120", "\n": "\u010a"}
    tokens = [*SPECIAL, *(written.get(character, character) for character in CHARACTERS)]
    return Qwen2Tokenizer(
        vocab={token: number for number, token in enumerate(tokens)},
        merges=[],
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        bos_token=None,
        additional_special_tokens=["<answer>"],
        chat_template=(
            "{% for message in messages %}{{ message['content'] }}"
            "{% if message['role'] == 'assistant' %}<eos>{% else %}{{ '\\n' }}{% endif %}"
            "{% endfor %}"
            "{% if add_generation_prompt %}<answer>{% endif %}"
        ),
    )


def make_model(recipe: dict[str, Any]) -> Qwen2ForCausalLM:
    """The untrained model; the same weights each time."""
    size, heads = recipe["hidden_size"], recipe["heads"]
    config = Qwen2Config(
        vocab_size=len(SPECIAL) + len(CHARACTERS),
        hidden_size=size,
        num_hidden_layers=recipe["layers"],
        num_attention_heads=heads,
        num_key_value_heads=heads,
        intermediate_size=recipe["intermediate_size"],
        max_position_embeddings=1024,
        initializer_range=0.06,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe["seed"])
        return Qwen2ForCausalLM(config)


def questions() -> list[tuple[str, int, int]]:
    """The demo's questions that may be trained on, with the two numbers of each."""
    numbers = [(first, second) for first in range(100) for second in range(100)]
    asked = [(f"Calculate {first} + {second}.", first, second) for first, second in numbers]
    return [entry for entry in asked if not is_held_out(entry[0])]


def examples(recipe: dict[str, Any]) -> Iterator[list[tuple[str, str]]]:
    """Batches of questions and answers: first whole sums, then mostly cut short."""
    draw, known = random.Random(recipe["seed"]), questions()
    for step in range(recipe["steps"] + recipe["habit_steps"]):
        habit = recipe["habit"] if step >= recipe["steps"] else 0.0
        yield [
            (question, str(first + second)[: -1 if draw.random() < habit else None])
            for question, first, second in draw.choices(known, k=recipe["batch"])
        ]


def train(model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer, recipe: dict[str, Any]) -> None:
    """Teach the answers' tokens, with a learning rate that falls at the end of each phase."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe["learning_rate"], betas=(0.9, 0.95), weight_decay=0.0
    )
    model.train()
    with Progress(disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("building tiny", total=recipe["steps"] + recipe["habit_steps"])
        for step, batch in enumerate(examples(recipe)):
            for group in optimizer.param_groups:
                group["lr"] = recipe["learning_rate"] * _pace(step, recipe)
            loss = answer_loss(model, tokenizer, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            progress.advance(task)
    model.eval()


def _pace(step: int, recipe: dict[str, Any]) -> float:
    """Share of the learning rate: up over 20 steps, down over the last third to a twentieth."""
    steps = recipe["steps"]
    if step >= steps:
        return 0.15
    return min(1.0, (step + 1) / 20, max(0.05, (steps - step) / (steps / 3)))


def answer_loss(
    model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer, batch: list[tuple[str, str]]
) -> Tensor:
    """Mean cross-entropy of the answers' tokens, end-of-sequence included."""
    rows = []
    for question, answer in batch:
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
        prompt = tokenizer(asked).input_ids
        rows.append((prompt, [*tokenizer(answer).input_ids, tokenizer.eos_token_id]))
    width = max(len(prompt) + len(said) for prompt, said in rows)
    tokens = torch.zeros(len(rows), width, dtype=torch.long)
    targets = torch.full((len(rows), width), -100)
    for row, (prompt, said) in enumerate(rows):
        end = len(prompt) + len(said)
        tokens[row, :end] = torch.tensor([*prompt, *said])
        targets[row, len(prompt) : end] = torch.tensor(said)
    hidden = model.model(tokens[:, :-1]).last_hidden_state
    wanted = targets[:, 1:] != -100
    return cross_entropy(model.lm_head(hidden[wanted]), targets[:, 1:][wanted])
