"""Engines taking and giving back their memory, and what that shows of their size."""

from typing import Any

from rlgraph.errors import EngineError
from rlgraph.models import Resident
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.plan import Sleep, Wake


def settle(engine: Any, resident: Resident, *, asleep: bool, discard: bool) -> Memory:
    """Measure a fresh engine at each of its levels, if it is to be left ``asleep``.

    ``discard`` says that it gets weights before its first use.
    """
    awake = engine.bytes_held
    if not asleep:
        return Memory(awake)
    sleep = Sleep(resident.name, discard)
    change(engine, sleep)
    least, weights = engine.bytes_held, None
    if resident.kind == "sampler":
        change(engine, Wake(resident.name, "weights"))
        weights = engine.bytes_held
        change(engine, sleep)
    return Memory(awake, least, weights)


def change(engine: Any, action: Sleep | Wake) -> None:
    """Do what a plan says of one engine. What only a sampler knows is said to it alone."""
    if isinstance(action, Sleep):
        engine.sleep(**({"keep_weights": False} if action.discard else {}))
    else:
        engine.wake(*([action.part] if action.part != "all" else []))


def awake_after(awake: frozenset[str], action: Sleep | Wake) -> frozenset[str]:
    """Who is awake once ``action`` is done; with its weights alone nobody is."""
    rest = awake - {action.resident}
    woken = isinstance(action, Wake) and action.part == "all"
    return rest | {action.resident} if woken else rest


def not_done(error: EngineError, action: Sleep | Wake, awake: frozenset[str]) -> EngineError:
    """The error of a sleep or wake that failed; also says who was awake then."""
    verb = "sleep" if isinstance(action, Sleep) else "wake"
    others = ", ".join(sorted(awake - {action.resident})) or "nobody else"
    return EngineError(f"{verb} {action.resident}: {error}; awake at the time: {others}")
