"""A run: the steps of a graph, evaluations in between, and what is kept of them."""

import time
from collections.abc import Iterator
from dataclasses import replace

from rlgraph.executors import Executor, StepReport
from rlgraph.graph import Graph
from rlgraph.job import Job, RunConfig
from rlgraph.records import Rewards, Rollout
from rlgraph.runlog import RunLog
from rlgraph.scheduling.planner import Pace, plan_step
from rlgraph.trace import Trace
from rlgraph.types import Record


def train(job: Job, run: RunConfig, executor: Executor, log: RunLog) -> None:
    """Run all steps; evaluate before, in between and after; save the policy.

    Raises:
        EngineError: a step trained on no token.
        RlgraphError: a node failed.
    """
    job = replace(job, memory={**job.memory, **executor.memory})
    with Trace(log.folder / "trace.json", job.placement) as trace:
        evaluate(job, executor, log, 0)
        shown = list(_scored(job.graph))[:1]
        waiting = False
        for step in range(1, run.steps + 1):
            began = time.perf_counter()
            ahead = run.staleness > 0 and step < run.steps
            report = StepReport()
            for part in rounds(job, run, executor, waiting, ahead):
                report.add(part)
            waiting = ahead
            total = time.perf_counter() - began
            trace.step(step, report.spans)
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


def rounds(
    job: Job, run: RunConfig, executor: Executor, waiting: bool, ahead: bool
) -> Iterator[StepReport]:
    """One step: once through its plan, and again as long as a node asks for another round."""
    while True:
        pace = Pace(run.rollout_parts, waiting, ahead)
        plan = plan_step(job.graph, job.placement, job.memory, executor.awake, pace)
        report = executor.run(plan)
        yield report
        if not report.skipped:
            return
        waiting = ahead


def evaluate(job: Job, executor: Executor, log: RunLog, step: int) -> None:
    """Run the evaluation graph once and log its numbers."""
    if job.evaluation is not None:
        plan = plan_step(job.evaluation, job.placement, job.memory, executor.awake)
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
