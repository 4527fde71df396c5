"""From a resident to the engine that holds it.

Each engine is imported only where it is built: a worker that scores rewards
does not load vLLM.
"""

from dataclasses import replace
from typing import Any, Literal

from rlgraph.builtin import resolve
from rlgraph.models import Resident
from rlgraph.settings import PolicyConfig, RunContext

Executors = Literal["local", "ray"]


def build_engine(resident: Resident, context: RunContext, executor: Executors) -> Any:
    """Load what ``resident`` names. For a trainer or scorer: this process's rank of it.

    Raises:
        RlgraphError: the model, data or function cannot be used as configured.
    """
    if isinstance(resident.settings, PolicyConfig):
        settings = replace(resident.settings, path=resolve(resident.settings.path))
        resident = replace(resident, settings=settings)
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

        return DeepSpeedTrainer(resident.settings, context)
    from rlgraph.engines.transformers import TransformersTrainer

    return TransformersTrainer(resident.settings, context)


def _scorer(resident: Resident, context: RunContext, executor: Executors) -> Any:
    choice = resident.settings.trainer.engine
    if choice == "deepspeed" or (choice == "auto" and executor == "ray"):
        from rlgraph.engines.deepspeed import DeepSpeedScorer

        return DeepSpeedScorer(resident.settings, context)
    from rlgraph.engines.transformers import TransformersScorer

    return TransformersScorer(resident.settings, context)
