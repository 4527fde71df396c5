"""Handles: what a graph says instead of a model, before any weights are loaded.

A handle plays roles. Behind each role stands a resident: one set of weights (or
one state) that a scheduler can place, wake and put to sleep.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rlgraph.engines.protocols import Sampler, Scorer, Trainer, ValueModel

if TYPE_CHECKING:
    from rlgraph.settings import PolicyConfig

Kind = Literal["sampler", "trainer", "scorer", "reward", "prompts", "state"]


@dataclass(frozen=True)
class Resident:
    """Something that occupies devices or memory from step to step."""

    name: str
    kind: Kind
    settings: Any
    """What its engine is built from: plain, picklable data."""
    head: Literal["lm", "value"] = "lm"
    """Of a trainer or scorer: what its forward pass ends in."""
    follows: str | None = None
    """Of a sampler: the trainer whose weights it takes over."""
    on_device: bool = False
    """Does it want a device, or only the host's memory?"""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Handle:
    """A named thing that a graph's nodes can use in one of its roles."""

    name: str

    @property
    def roles(self) -> Mapping[type, Resident]:
        """Which resident answers for which role."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[str, ...]:
        """What a forward pass offers to a loss, by parameter name."""
        return ()


@dataclass(frozen=True)
class Policy(Handle):
    """The model that learns: it is sampled from, trained, and can score rows."""

    settings: "PolicyConfig"

    @property
    def trainer(self) -> Resident:
        """The weights that an optimizer moves."""
        return Resident(f"{self.name}.trainer", "trainer", self.settings, on_device=True)

    @property
    def sampler(self) -> Resident:
        """The copy of the weights that samples."""
        return Resident(
            f"{self.name}.sampler",
            "sampler",
            self.settings,
            follows=self.trainer.name,
            on_device=True,
        )

    @property
    def roles(self) -> Mapping[type, Resident]:
        """Sampler, Trainer and Scorer; the trainer's weights do the scoring."""
        return {Sampler: self.sampler, Trainer: self.trainer, Scorer: self.trainer}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Per-token log-probabilities of the actions, and the entropy of their distribution."""
        return ("logprobs", "entropy")

    def frozen(self, name: str = "reference") -> "Reference":
        """The same model as it was before training, for a KL term."""
        return Reference(name, self.settings)


@dataclass(frozen=True)
class Reference(Handle):
    """A frozen language model that scores rows."""

    settings: "PolicyConfig"

    @property
    def roles(self) -> Mapping[type, Resident]:
        """Scorer only."""
        return {Scorer: Resident(self.name, "scorer", self.settings, on_device=True)}


@dataclass(frozen=True)
class Critic(Handle):
    """A value model that is trained: the policy's architecture under a scalar head."""

    settings: "PolicyConfig"

    @property
    def roles(self) -> Mapping[type, Resident]:
        """ValueModel and Trainer, of the same weights."""
        trainer = Resident(
            f"{self.name}.trainer", "trainer", self.settings, head="value", on_device=True
        )
        return {ValueModel: trainer, Trainer: trainer}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The value before each action token."""
        return ("values",)


@dataclass(frozen=True)
class Stateful(Handle):
    """An object that nodes change from step to step, such as an adaptive KL coefficient.

    ``factory`` makes it; it needs ``state_dict`` and ``load_state_dict``. A port
    annotated with the object's class takes this handle.
    """

    factory: Callable[[], Any]
    role: type

    @property
    def roles(self) -> Mapping[type, Resident]:
        """The object's own class."""
        return {self.role: Resident(self.name, "state", self.factory)}
