"""Every graph that comes with rlgraph builds, has a valid plan, and learns an easy task."""

import dataclasses
import pkgutil
from pathlib import Path

import pytest

import rlgraph.graphs
from rlgraph import GraphError
from rlgraph.data import DataConfig
from rlgraph.executors.local import LocalExecutor
from rlgraph.graphfile import load_graph_file
from rlgraph.loop import Job, RunConfig
from rlgraph.rewards import RewardConfig
from rlgraph.scheduling.plan import Run
from rlgraph.scheduling.planner import plan_step
from rlgraph.settings import PolicyConfig, RunContext, SamplerConfig, TrainerConfig

ALL = sorted(module.name for module in pkgutil.iter_modules(rlgraph.graphs.__path__))
ALGORITHMS = [name for name in ALL if name != "evaluate"]
STEPS = 8


def share_of_digits(prompts: list[str], responses: list[str]) -> list[float]:
    """An easy task: say digits."""
    return [sum(c.isdigit() for c in said) / max(1, len(said)) for said in responses]


@pytest.fixture(scope="module")
def prompts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "prompts.jsonl"
    path.write_text("".join(f'{{"prompt": "{i}+{i}=", "answer": "{2 * i}"}}\n' for i in range(40)))
    return path


def settings(name: str, model: str, data: Path):
    file = load_graph_file(f"rlgraph.graphs.{name}")
    config = file.config_type(
        policy=PolicyConfig(
            path=model,
            trainer=TrainerConfig(learning_rate=3e-3),
            sampler=SamplerConfig(max_new_tokens=5),
        ),
        data=DataConfig(source=str(data), task_options=()),
        reward=RewardConfig(f"{__file__}:share_of_digits"),
        prompts_per_step=8,
    )
    if hasattr(config, "critic"):
        trainer = TrainerConfig(learning_rate=3e-3)
        critic = dataclasses.replace(config.critic, trainer=trainer)
        config = dataclasses.replace(config, critic=critic)
    return file, config


@pytest.mark.parametrize("name", ALL)
def test_its_plan_runs_every_node_once_after_its_inputs(name, tiny_model, prompts_file):
    file, config = settings(name, tiny_model, prompts_file)
    job = Job.of(file.build(config), None, RunConfig())
    ran = [event.action.node for event in job.plan().events if isinstance(event.action, Run)]
    assert sorted(ran) == sorted(job.graph.nodes)
    for node in job.graph.nodes.values():
        assert all(ran.index(v.node.name) < ran.index(node.name) for v in node.inputs.values())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_learns_an_easy_task(name, tiny_model, prompts_file, tmp_path):
    file, config = settings(name, tiny_model, prompts_file)
    job = Job.of(file.build(config), None, RunConfig())
    executor = LocalExecutor(job.residents, RunContext(steps=STEPS, scratch=tmp_path))
    rewards = []
    for _ in range(STEPS):
        plan = plan_step(job.graph, job.placement, job.memory, job.placement.homes)
        report = executor.run(plan)
        while report.skipped:
            report.add(executor.run(plan))
        rewards.append(report.metrics["reward/mean"].value)
    executor.close()
    assert sum(rewards[-2:]) / 2 > sum(rewards[:2]) / 2 + 0.1, rewards


def test_an_algorithm_is_one_short_file():
    folder = Path(rlgraph.graphs.__path__[0])
    lengths = {path.name: len(path.read_text().splitlines()) for path in folder.glob("*.py")}
    assert max(lengths.values()) <= 100, lengths


def test_leave_one_out_with_one_sample_is_refused_when_the_graph_is_built(tiny_model, prompts_file):
    file, config = settings("rloo", tiny_model, prompts_file)
    with pytest.raises(GraphError, match="--samples-per-prompt to 2"):
        file.build(dataclasses.replace(config, samples_per_prompt=1))
