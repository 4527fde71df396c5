"""Drawing prompts, epoch after epoch."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlgraph.data.dataset import PromptDataset
from rlgraph.errors import DataError
from rlgraph.metrics import log
from rlgraph.records import Prompts

logger = logging.getLogger(__name__)


class Stream:
    """Draws prompts in an order that depends on seed and epoch alone; resumes exactly.

    An epoch draws each row once. A take may reach into the next epoch; no row is
    in it twice, so rows that it has already drawn come later in that epoch.
    """

    def __init__(self, data: PromptDataset, *, seed: int = 0, shuffle: bool = True) -> None:
        self.data = data
        self.shuffle = shuffle
        self._seed = seed
        self._epoch = 0
        self._position = 0
        self._drawn = 0
        self._before: np.ndarray = np.empty(0, dtype=np.int64)
        """Rows of the previous epoch in the take that began this one."""
        self._first = 0
        """Rows of this epoch in that take."""
        self._order = self._arrange()
        self._warned = False

    def take(self, count: int) -> Prompts:
        """The next ``count`` prompts, ``[count seq]``; fewer only if the data set is smaller.

        Raises:
            ValueError: ``count`` is less than 1.
        """
        if count < 1:
            raise ValueError(f"cannot take {count} prompts; count must be at least 1")
        if count > len(self.data) and not self._warned:
            self._warned = True
            logger.warning(
                "%d prompts are wanted at a time, but the data set has only %d: all are taken",
                *(count, len(self.data)),
            )
        rows = self._advance(min(count, len(self.data)))
        self._drawn += len(rows)
        log("data/epoch", self._epoch + self._position / len(self.data), kind="max")
        for name, lost in (("bad_rows", self.data.bad), ("long_prompts", self.data.long)):
            if lost:
                log(f"data/{name}", lost, kind="max")
        return self._prompts(rows)

    def _advance(self, count: int) -> np.ndarray:
        rows = self._order[self._position : self._position + count]
        self._position += len(rows)
        if len(rows) < count:
            self._epoch += 1
            self._before, self._first = rows, count - len(rows)
            self._order = self._arrange()
            self._position = self._first
            rows = np.concatenate([rows, self._order[: self._first]])
        return rows

    def _arrange(self) -> np.ndarray:
        """This epoch's order: shuffled, then rows of the bordering take moved behind it."""
        order = np.arange(len(self.data))
        if self.shuffle:
            order = np.random.default_rng([self._seed, self._epoch]).permutation(order)
        fresh = order[~np.isin(order, self._before)][: self._first]
        return np.concatenate([fresh, order[~np.isin(order, fresh)]])

    def _prompts(self, rows: np.ndarray) -> Prompts:
        ids = [self.data.tokens[row] for row in rows]
        width = max(map(len, ids))
        tokens = torch.zeros(len(ids), width, dtype=torch.long)
        for row, found in enumerate(ids):
            tokens[row, : len(found)] = torch.from_numpy(found)
        lengths = torch.tensor([len(found) for found in ids])
        return Prompts(
            tokens=tokens,
            attention_mask=torch.arange(width) < lengths[:, None],
            group=torch.arange(self._drawn - len(ids), self._drawn),
            # Copies, so that nobody writes into the data set.
            columns=[dict(self.data.columns[row]) for row in rows],
            batch_size=[len(ids)],
        )

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is: plain numbers, lists and text."""
        return {
            "seed": self._seed,
            "epoch": self._epoch,
            "position": self._position,
            "drawn": self._drawn,
            "before": self._before.tolist(),
            "first": self._first,
            "shuffle": self.shuffle,
            "data": self.data.fingerprint,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the stream that gave ``state`` was, with its seed.

        Raises:
            DataError: that one drew from other prompts, or in another way.
        """
        if state["data"] != self.data.fingerprint:
            raise DataError(
                "the data set is not the one that the checkpoint was drawing from (its prompts, "
                "their order or their tokens differ), so the run cannot go on where it was; "
                "bring back the old data and data settings, or start a new run"
            )
        if state["shuffle"] != self.shuffle:
            raise DataError(
                f"the checkpoint was made with data.shuffle={state['shuffle']}; set it back"
            )
        self._seed, self._epoch = int(state["seed"]), int(state["epoch"])
        self._position, self._drawn = int(state["position"]), int(state["drawn"])
        self._before = np.array(state["before"], dtype=np.int64)
        self._first = int(state["first"])
        self._order = self._arrange()
