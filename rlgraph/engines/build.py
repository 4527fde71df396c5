"""From a resident to the engine that holds it.

Each engine is imported only where it is built: a worker that scores rewards
does not load vLLM.
"""

from dataclasses import replace
from typing import Any, Literal

from rlgraph.builtin import learning_rate, resolve
from rlgraph.models import Resident
from rlgraph.settings import PolicyConfig, RunContext

Executors = Literal["local", "ray"]


def build_engine(resident: Resident, context: RunContext, executor: Executors) -> Any:
    """Load what ``resident`` names. For a trainer or scorer: this process's rank of it.

    Raises:
        RlgraphError: the model, data or function cannot be used as configured.
    """
    if isinstance(resident.settings, PolicyConfig):
        resident = replace(resident, settings=_complete(resident.settings))
    match resident.kind:
        case "sampler":
            return _sampler(resident, context, executor)
        case "trainer":
            return _trainer(resident, context, executor)
        case "scorer":
            return _scorer(resident, context, executor)
        case "reward":
            from rlgraph.rewards import build_rewarder

            return build_rewarder(resident.settings, context)
        case "prompts":
            from rlgraph.data import build_stream

            return build_stream(resident.settings, context.seed)
        case "state":
            return resident.settings()


def _complete(policy: PolicyConfig) -> PolicyConfig:
    """Settings as engines want them: a real path, and a learning rate."""
    rate = policy.trainer.learning_rate
    trainer = replace(
        policy.trainer, learning_rate=learning_rate(policy.path) if rate is None else rate
    )
    return replace(policy, path=resolve(policy.path), trainer=trainer)


def _sampler(resident: Resident, context: RunContext, executor: Executors) -> Any:
    choice = resident.settings.sampler.engine
    if choice == "vllm" or (choice == "auto" and executor == "ray"):
        from rlgraph.engines.vllm import VllmSampler

        return VllmSampler(resident.settings, context)
    from rlgraph.engines.transformers import TransformersSampler

    return TransformersSampler(resident.settings, context)


def _trainer(resident: Resident, context: RunContext, executor: Executors) -> Any:
    choice = resident.settings.trainer.engine
    if choice == "deepspeed" or (choice == "auto" and executor == "ray"):
        from rlgraph.engines.deepspeed import DeepSpeedTrainer

        return DeepSpeedTrainer(resident.settings, context, head=resident.head)
    from rlgraph.engines.transformers import TransformersTrainer

    return TransformersTrainer(resident.settings, context, head=resident.head)


def _scorer(resident: Resident, context: RunContext, executor: Executors) -> Any:
    choice = resident.settings.trainer.engine
    if choice == "deepspeed" or (choice == "auto" and executor == "ray"):
        from rlgraph.engines.deepspeed import DeepSpeedScorer

        return DeepSpeedScorer(resident.settings, context, head=resident.head)
    from rlgraph.engines.transformers import TransformersScorer

    return TransformersScorer(resident.settings, context, head=resident.head)
