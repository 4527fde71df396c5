"""A run before anything is started: its settings, its residents, where they live."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rlgraph.errors import RlgraphError
from rlgraph.executors import Executor
from rlgraph.graph import Graph
from rlgraph.models import Resident
from rlgraph.runlog import LogConfig
from rlgraph.scheduling.devices import Devices, parse_size
from rlgraph.scheduling.feasibility import check_hosts, crowded
from rlgraph.scheduling.memory import Memory, estimate
from rlgraph.scheduling.modes import place
from rlgraph.scheduling.placement import Placement
from rlgraph.scheduling.placement_file import read_placement
from rlgraph.scheduling.plan import Plan
from rlgraph.scheduling.planner import Pace, plan_step
from rlgraph.settings import RunContext


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
    placement: str = "colocate"
    """colocate: all models share the devices; split: each has its own; group: policy and
    reference, critic and reward model, samplers; or a YAML file."""
    devices: int | None = None
    """Devices to use; default: all GPUs, or without any, one CPU slot per core."""
    device_memory: str | None = None
    """What models may fill of each device, such as 2GiB; default: all of a GPU, a CPU slot has
    no limit. Models that do not fit at the same time take turns."""
    staleness: Literal[0, 1] = 0
    """1: sample the next batch while this one is trained on, with weights one update old."""
    rollout_parts: int = 1
    """Parts that a batch is sampled in. More let rewards and other models on devices of their
    own begin before sampling ends; each part costs the sampler the wait for its longest row."""
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
        for name in ("steps", "host_workers", "rollout_parts"):
            if (given := getattr(self, name)) < 1:
                flag = name.replace("_", "-")
                raise RlgraphError(f"--{flag} {given}: it must be at least 1")

    @property
    def memory(self) -> int | None:
        """``device_memory`` in bytes."""
        return None if self.device_memory is None else parse_size(self.device_memory)


@dataclass(frozen=True)
class Job:
    """A graph, its evaluation, and everything that both need."""

    graph: Graph
    evaluation: Graph | None
    residents: dict[str, Resident]
    placement: Placement
    memory: dict[str, Memory]

    @classmethod
    def of(cls, graph: Graph, evaluation: Graph | None, run: RunConfig) -> "Job":
        """Find the residents, place them, look up their sizes and check that all fit.

        Raises:
            GraphError: the two graphs mean different residents by one name.
            PlacementError: the devices or their memory do not suffice.
        """
        both = Graph(graph.name)
        both.nodes = dict(graph.nodes)
        if evaluation is not None:
            both.nodes |= {f"evaluation: {name}": node for name, node in evaluation.nodes.items()}
        devices = _devices(run)
        placement, residents = _place(run.placement, both.residents, devices)
        memory = estimate(residents, devices)
        check_hosts(placement, residents, memory)
        job = cls(graph, evaluation, residents, placement, memory)
        job.plan(Pace(run.rollout_parts, ahead=run.staleness > 0))
        return job

    def plan(self, pace: Pace | None = None) -> Plan:
        """The plan of a training step that begins as the first one does."""
        awake = self.placement.homes.keys() - self.crowded
        return plan_step(self.graph, self.placement, self.memory, awake, pace)

    @property
    def crowded(self) -> frozenset[str]:
        """Residents that are started asleep, since their devices do not hold all at once."""
        return crowded(self.placement, self.memory)


def _place(
    wanted: str, residents: dict[str, Resident], devices: Devices
) -> tuple[Placement, dict[str, Resident]]:
    match wanted:
        case "colocate" | "split" | "group":
            return place(residents, wanted, devices), residents
        case _:
            return read_placement(Path(wanted), residents, devices)


def _devices(run: RunConfig) -> Devices:
    """Of the Ray cluster that the run joins, or of this machine."""
    if run.executor == "ray":
        from rlgraph.executors.cluster import joined

        if (devices := joined(run.devices, run.memory)) is not None:
            return devices
    return Devices.here(run.devices, run.memory)


def start(job: Job, run: RunConfig, context: RunContext) -> Executor:
    """Load every engine.

    Raises:
        RlgraphError: an engine cannot be loaded, or Ray not reached.
    """
    if run.executor == "local":
        from rlgraph.executors.local import LocalExecutor

        return LocalExecutor(job.residents, context, crowded=job.crowded)
    from rlgraph.executors.ray import RayExecutor

    return RayExecutor(job.residents, job.placement, context, run.host_workers, job.crowded)
