"""GRPO on tiny random models: settings, started engines, and nodes for the tests' own graphs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from rlgraph import node
from rlgraph.data import DataConfig
from rlgraph.executors.ray import RayExecutor
from rlgraph.graphfile import load_graph_file
from rlgraph.job import Job, RunConfig
from rlgraph.records import Rollout
from rlgraph.rewards import RewardConfig
from rlgraph.scheduling.plan import Plan
from rlgraph.scheduling.planner import plan_step
from rlgraph.settings import PolicyConfig, RunContext, SamplerConfig, TrainerConfig
from tests.toys import Counter

REWARD = Path(__file__).with_name("digits.py")
# More than one and less than two of vLLM's blocks of 32 tokens: their beginnings sit in the
# prefix cache, and they come again in each step.
LONG = [f"what is {i}+{i} and what do we know of {i}? " * 2 for i in range(5)]


@dataclass
class Setup:
    """Engines that were started for GRPO."""

    executor: RayExecutor
    job: Job
    config: Any
    model: str

    def plan(self, graph: Any) -> Plan:
        """A step of any graph that gets by with the started residents."""
        return plan_step(graph, self.job.placement, self.job.memory, self.job.placement.homes)


def policy_of(path: str, **changes: Any) -> PolicyConfig:
    """Short answers, a small cache, and a learning rate that moves the weights visibly."""
    trainer = {"learning_rate": 3e-3} | changes.pop("trainer", {})
    sampler = {"max_new_tokens": 5, "kv_cache_mib": 64, "max_sequences": 16}
    sampler |= changes.pop("sampler", {})
    return PolicyConfig(
        path=path, trainer=TrainerConfig(**trainer), sampler=SamplerConfig(**sampler), **changes
    )


def write_prompts(folder: Path, texts: list[str] = LONG) -> Path:
    """A data set of these prompts, none of which is held out."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": text, "answer": ""}) + "\n" for text in texts))
    return path


def grpo_config(model: str, workers: int, folder: Path) -> Any:
    """GRPO with as many ranks as engines."""
    return load_graph_file("rlgraph.graphs.grpo").config_type(
        policy=policy_of(model, trainer={"ranks": workers}, sampler={"engines": workers}),
        data=DataConfig(source=str(write_prompts(folder)), eval_size=0),
        reward=RewardConfig(f"{REWARD}:reward"),
        samples_per_prompt=4,
        prompts_per_step=5,
    )


def start_grpo(model: str, workers: int, folder: Path) -> Setup:
    """Load every engine of GRPO."""
    config = grpo_config(model, workers, folder)
    graph = load_graph_file("rlgraph.graphs.grpo").build(config)
    job = Job.of(graph, None, RunConfig(devices=2))
    executor = RayExecutor(
        job.residents, job.placement, RunContext(seed=3, scratch=folder), host_workers=workers
    )
    return Setup(executor, job, config, model)


@node
def sampled(counter: Counter) -> Rollout:
    """Stands for a rollout that a test injects."""
    raise AssertionError("to be injected")


def reinforce(
    logprobs: Float[Tensor, "batch seq"], rollout: Rollout, weight: Float[Tensor, " batch"]
) -> Float[Tensor, "batch seq"]:
    """A loss with another weight for each row."""
    return -(logprobs - rollout.logprobs).clamp(-2, 2).exp() * weight[:, None]
