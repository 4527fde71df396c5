"""TRL's side of ``step_time.py``, in a process of its own: seconds and tokens per step."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rlgraph  # noqa: F401  Before transformers: on a CPU it hides packages that would not import.

# isort: split
import torch
import tyro
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from workloads import WORKLOADS, reward


@dataclass(frozen=True)
class Settings:
    """What the parent process hands over."""

    workload: str
    model: Path
    prompts: Path
    output: Path
    steps: int
    micro_batch: int


class Clock(TrainerCallback):
    """Wall time from the end of one optimizer step to the end of the next."""

    def __init__(self) -> None:
        self.ends = [time.perf_counter()]

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Called by the trainer."""
        self.ends.append(time.perf_counter())


def main(settings: Settings) -> None:
    """Train, and write what was measured."""
    workload = WORKLOADS[settings.workload]
    # rlgraph's engines do it too; without it small gradients can slow a CPU down.
    torch.set_flush_denormal(True)
    tokens: list[int] = []

    def scored(
        prompts: list[str], completions: list[str], completion_ids: list[list[int]], **more: Any
    ) -> list[float]:
        tokens.append(sum(map(len, completion_ids)))
        return reward(prompts, completions)

    config = GRPOConfig(
        output_dir=str(settings.output.parent / "trl"),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=workload.samples // settings.micro_batch,
        num_generations=workload.samples_per_prompt,
        max_completion_length=workload.max_new_tokens,
        temperature=1.0,
        beta=workload.kl_coef,
        learning_rate=workload.learning_rate,
        lr_scheduler_type="constant",
        adam_beta2=0.999,
        weight_decay=0.0,
        max_grad_norm=1.0,
        # As rlgraph: the mean over all tokens of the optimizer batch.
        loss_type="dapo",
        num_iterations=1,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        logging_steps=10_000,
        disable_tqdm=True,
        shuffle_dataset=False,
        seed=0,
    )
    clock = Clock()
    GRPOTrainer(
        model=str(settings.model),
        reward_funcs=scored,
        args=config,
        train_dataset=Dataset.from_json(str(settings.prompts)),
        processing_class=AutoTokenizer.from_pretrained(settings.model),
        callbacks=[clock],
    ).train()
    seconds = [end - begin for begin, end in zip(clock.ends, clock.ends[1:], strict=False)]
    settings.output.write_text(json.dumps({"seconds": seconds, "tokens": tokens}))


if __name__ == "__main__":
    main(tyro.cli(Settings))
