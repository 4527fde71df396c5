"""A run: the steps of a graph, evaluations in between, and what is kept of them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rlgraph.errors import RlgraphError
from rlgraph.executors import Executor, StepReport
from rlgraph.graph import Graph
from rlgraph.memory import Memory, estimate
from rlgraph.models import Resident
from rlgraph.placement import Devices, Mode, Placement, place
from rlgraph.plan import Plan, plan_step
from rlgraph.records import Rewards, Rollout
from rlgraph.runlog import LogConfig, RunLog
from rlgraph.settings import RunContext
from rlgraph.types import Record


@dataclass(frozen=True)
class RunConfig:
    """How a graph is run, whatever it says."""

    steps: int = 40
    """Steps to run; each executes the whole graph once."""
    seed: int = 0
    """Seed of everything random."""
    output: Path | None = None
    """Folder for logs and the trained model; default: runs/GRAPH-DATE-TIME."""
    executor: Literal["ray", "local"] = "ray"
    """ray: worker processes with vLLM and DeepSpeed; local: in this process, plain torch."""
    placement: Mode = "colocate"
    """colocate: all models share the devices; split: each has its own."""
    devices: int | None = None
    """Devices to use; default: all GPUs, or without any, one CPU slot per core."""
    host_workers: int = 1
    """Processes for data, rewards and nodes that need no model."""
    plan: bool = False
    """Print the plan and stop: nothing is started."""
    evaluation: str = "rlgraph.graphs.evaluate"
    """Graph that is run on held-out prompts; an empty string turns evaluation off."""
    evaluate_every: int = 0
    """Steps between evaluations; 0: only before the first and after the last step."""
    save: bool = True
    """Write the trained policy into the output folder, in Hugging Face format."""
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        for name in ("steps", "host_workers"):
            if (given := getattr(self, name)) < 1:
                flag = name.replace("_", "-")
                raise RlgraphError(f"--{flag} {given}: it must be at least 1")


@dataclass(frozen=True)
class Job:
    """A graph, its evaluation, and everything that both need, before anything is started."""

    graph: Graph
    evaluation: Graph | None
    residents: dict[str, Resident]
    placement: Placement
    memory: dict[str, Memory]

    @classmethod
    def of(cls, graph: Graph, evaluation: Graph | None, run: RunConfig) -> "Job":
        """Find the residents, place them and look up their sizes.

        Raises:
            GraphError: the two graphs mean different residents by one name.
            PlacementError: the devices do not suffice.
        """
        both = Graph(graph.name)
        both.nodes = dict(graph.nodes)
        if evaluation is not None:
            both.nodes |= {f"evaluation: {name}": node for name, node in evaluation.nodes.items()}
        residents = both.residents
        devices = Devices.here(run.devices)
        placement = place(residents, run.placement, devices)
        return cls(graph, evaluation, residents, placement, estimate(residents, devices))

    def plan(self) -> Plan:
        """The plan of a training step."""
        return plan_step(self.graph, self.placement, self.memory, self.placement.homes)


def start(job: Job, run: RunConfig, context: RunContext) -> Executor:
    """Load every engine.

    Raises:
        RlgraphError: an engine cannot be loaded, or Ray not reached.
    """
    if run.executor == "local":
        from rlgraph.executors.local import LocalExecutor

        return LocalExecutor(job.residents, context)
    from rlgraph.executors.ray import RayExecutor

    return RayExecutor(job.residents, job.placement, context, run.host_workers)


def train(job: Job, run: RunConfig, executor: Executor, log: RunLog) -> None:
    """Run all steps; evaluate before, in between and after; save the policy.

    Raises:
        EngineError: a step trained on no token.
        RlgraphError: a node failed.
    """
    evaluate(job, executor, log, 0)
    shown = list(_scored(job.graph))[:1]
    awake = frozenset(job.placement.homes)
    for step in range(1, run.steps + 1):
        began = time.perf_counter()
        plan = plan_step(job.graph, job.placement, job.memory, awake)
        report = executor.run(plan)
        while report.skipped:
            plan = plan_step(job.graph, job.placement, job.memory, plan.awake)
            report.add(executor.run(plan))
        awake = plan.awake
        total = time.perf_counter() - began
        numbers = _numbers(report)
        if "rollout/tokens" in numbers:
            numbers["rollout/tokens_per_second"] = numbers["rollout/tokens"] / total
        log.step(step, numbers, {**report.seconds, "total": total})
        if shown and log.wants_samples(step):
            rollout, rewards = (executor.fetch(name, run.log.samples) for name in shown[0])
            assert isinstance(rollout, Rollout) and isinstance(rewards, Rewards)
            log.samples(step, rollout, rewards)
        last = step == run.steps
        if last or (run.evaluate_every and step % run.evaluate_every == 0):
            evaluate(job, executor, log, step)
    if run.save:
        save(job, executor, log)


def evaluate(job: Job, executor: Executor, log: RunLog, step: int) -> None:
    """Run the evaluation graph once and log its numbers."""
    if job.evaluation is not None:
        plan = plan_step(job.evaluation, job.placement, job.memory, job.placement.homes)
        log.evaluation(step, _numbers(executor.run(plan)))


def save(job: Job, executor: Executor, log: RunLog) -> None:
    """Write every trained model into the run's folder."""
    for name, resident in job.residents.items():
        if resident.kind == "trainer":
            folder = log.folder.absolute() / name.removesuffix(".trainer")
            executor.call(name, "save", str(folder))
            log.event("saved", f"{name} in {folder}")


def _scored(graph: Graph) -> Iterator[tuple[str, str]]:
    """Pairs of a node that gives a rollout and one that gives its rewards."""
    for node in graph.nodes.values():
        if node.function.result == Record(Rewards):
            for value in node.inputs.values():
                if value.type == Record(Rollout):
                    yield value.node.name, node.name


def _numbers(report: StepReport) -> dict[str, float]:
    return {name: metric.value for name, metric in report.metrics.items()}
