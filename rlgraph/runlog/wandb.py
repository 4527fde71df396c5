"""The log on Weights & Biases."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlgraph.errors import RlgraphError
from rlgraph.runlog.entries import Entry, Evaluation, Event, Samples, Step

_COLUMNS = ("prompt", "response", "answer", "reward", "length", "truncated")


class WandbSink:
    """One wandb run. The API key is wandb's own affair: it is neither read nor written here."""

    def __init__(self, folder: Path, project: str, title: str, settings: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise RlgraphError(
                f"--log.wandb needs the wandb package ({error}): `pip install 'rlgraph[wandb]'`, "
                "or leave the flag out"
            ) from error
        self._wandb = wandb
        self._run = wandb.init(project=project, name=title, dir=str(folder), config=dict(settings))
        # An axis of our own: wandb's refuses numbers of a step that lies behind the last one.
        self._run.define_metric("*", step_metric="step")

    def write(self, entry: Entry) -> None:
        """Numbers as they are, samples as a table; warnings and errors as alerts."""
        match entry:
            case Step(step, metrics, seconds):
                times = {f"seconds/{name}": value for name, value in seconds.items()}
                self._run.log({"step": step, **metrics, **times})
            case Evaluation(step, metrics):
                numbers = {f"evaluation/{name}": value for name, value in metrics.items()}
                self._run.log({"step": step, **numbers})
            case Samples(step, rows):
                data = [[_cell(getattr(row, name)) for name in _COLUMNS] for row in rows]
                table = self._wandb.Table(columns=list(_COLUMNS), data=data)
                self._run.log({"step": step, "samples": table})
            case Event(kind, message):
                if kind in ("warning", "error"):
                    self._run.alert(title=kind, text=message)

    def close(self) -> None:
        """Upload what is left and end the run."""
        self._run.finish()


def _cell(value: Any) -> Any:
    plain = value is None or isinstance(value, str | int | float)
    return value if plain else json.dumps(value, default=str, ensure_ascii=False)
