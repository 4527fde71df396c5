"""The settings of a run's log."""

from dataclasses import dataclass

from rlgraph.errors import RlgraphError


@dataclass(frozen=True)
class LogConfig:
    """What is shown and kept of a run; metrics.jsonl is always written."""

    tensorboard: bool = True
    """Write TensorBoard event files into the run's folder."""
    wandb: bool = False
    """Send numbers and samples to Weights & Biases (needs `pip install wandb`)."""
    wandb_project: str = "rlgraph"
    """Weights & Biases project."""
    samples: int = 4
    """Prompts and responses that are shown and kept each time; 0 for none."""
    samples_every: int = 5
    """Steps from one time to the next; the first and the last step are always among them."""

    def __post_init__(self) -> None:
        if self.samples < 0:
            raise RlgraphError(f"--log.samples is {self.samples}; give 0 or more")
        if self.samples_every < 1:
            raise RlgraphError(f"--log.samples-every is {self.samples_every}; give 1 or more")
