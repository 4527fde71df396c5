"""The two workloads of ``step_time.py``: the model, the prompts and the reward of each.

Short: the built-in tiny model, which answers additions with a few digits. Skewed: the
same model after a short supervised training in which one answer in 16 is a run of one
character that never ends. So nearly all answers have a few tokens, and some have as
many as the limit allows, in whatever framework samples from it.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import rlgraph  # noqa: F401  Before transformers: on a CPU it hides packages that would not import.

# isort: split
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlgraph.builtin import resolve
from rlgraph.builtin.tiny import questions


@dataclass(frozen=True)
class Workload:
    """What one side is given."""

    name: str
    max_new_tokens: int
    prompts_per_step: int = 32
    samples_per_prompt: int = 8
    learning_rate: float = 1e-6
    """So low that the lengths stay as they are."""
    kl_coef: float = 1e-3

    @property
    def samples(self) -> int:
        """Rows per step."""
        return self.prompts_per_step * self.samples_per_prompt


WORKLOADS = {"short": Workload("short", 16), "skewed": Workload("skewed", 256)}
RAMBLES = 1 / 16
"""Share of answers that never end, in the skewed workload."""


def reward(prompts: list[str], responses: list[str], **columns: object) -> list[float]:
    """Something cheap that differs between the answers to a prompt, so that there is a gradient."""
    return [sum(map(ord, response)) % 7 / 6 for response in responses]


def prepare(workload: Workload, folder: Path) -> tuple[Path, Path]:
    """Write the model and the prompts; their paths. Prompts are text, chat template applied."""
    source = Path(resolve("tiny"))
    tokenizer = AutoTokenizer.from_pretrained(source)
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
        for question, _, _ in random.Random(0).sample(questions(), 2048)
    ]
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    if workload.name == "short":
        return source, prompts
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    teach_to_ramble(model, tokenizer, texts)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return folder / "model", prompts


def teach_to_ramble(model: torch.nn.Module, tokenizer, texts: list[str]) -> None:  # type: ignore[no-untyped-def]
    """A hundred steps on two-digit answers, of which one in 16 is a run of one character."""
    draw = random.Random(1)
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    model.train()
    for _ in range(100):
        rows = []
        for text in draw.choices(texts, k=64):
            answer = "." * 40 if draw.random() < RAMBLES else f"{draw.randrange(10, 100)}<eos>"
            rows.append((tokenizer(text).input_ids, tokenizer(answer).input_ids))
        width = max(len(asked) + len(answer) for asked, answer in rows)
        tokens = torch.zeros(len(rows), width, dtype=torch.long)
        # Each answer counts alike, or the long ones would outweigh the choice of the first token.
        weights = torch.zeros(len(rows), width)
        for row, (asked, answer) in enumerate(rows):
            end = len(asked) + len(answer)
            tokens[row, :end] = torch.tensor([*asked, *answer])
            weights[row, len(asked) : end] = 1 / len(answer)
            weights[row, len(asked)] = 1
        logits = model(tokens[:, :-1]).logits
        losses = cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        ((losses * weights[:, 1:]).sum() / len(rows)).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
