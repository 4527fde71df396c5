"""The log as TensorBoard event files."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rlgraph.errors import RlgraphError
from rlgraph.runlog.entries import Entry, Evaluation, Samples, Step

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardSink:
    """Event files in ``folder/tensorboard``; `tensorboard --logdir` on the folder shows them."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RlgraphError(
                f"TensorBoard cannot be used ({error}); `pip install tensorboard`, "
                "or turn it off with --log.no-tensorboard"
            ) from error
        self._make = SummaryWriter
        self._folder = folder / "tensorboard"
        self._writer: SummaryWriter | None = None

    def _at(self, step: int) -> "SummaryWriter":
        # Made at the first entry: a resumed run hides what an earlier one wrote past this step.
        if self._writer is None:
            self._writer = self._make(str(self._folder), purge_step=step)
        return self._writer

    def write(self, entry: Entry) -> None:
        """Numbers become scalars, samples become text; events are left out."""
        match entry:
            case Step(step, metrics, seconds):
                for name, value in metrics.items():
                    self._at(step).add_scalar(name, value, step)
                for name, value in seconds.items():
                    self._at(step).add_scalar(f"seconds/{name}", value, step)
            case Evaluation(step, metrics):
                for name, value in metrics.items():
                    self._at(step).add_scalar(f"evaluation/{name}", value, step)
            case Samples(step, rows):
                lines = [json.dumps(asdict(row), default=str, ensure_ascii=False) for row in rows]
                # Indented by four: Markdown shows it as it is.
                text = "\n\n".join(f"    {line}" for line in lines)
                self._at(step).add_text("samples", text.encode("utf-8", "replace").decode(), step)
            case _:
                return
        self._at(step).flush()

    def close(self) -> None:
        """Flush and close, if anything was written."""
        if self._writer is not None:
            self._writer.close()
