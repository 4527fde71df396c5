"""Calling a function that may hang."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class OutOfTime(Exception):
    """The call was given up; a plain function may still be running in its thread."""


def call_within(seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The function's result; an ``async`` function's is awaited.

    It runs in a thread of its own, with the caller's context variables. A thread
    cannot be killed: after :class:`OutOfTime` a plain function goes on unseen,
    and one that never lets go of Python's interpreter lock is not interrupted.

    Raises:
        OutOfTime: there was no result after ``seconds``.
        Exception: whatever the function raises.
    """
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = asyncio.run(_finish(result, seconds))
            results.append(result)
        except BaseException as error:
            errors.append(error)

    context = contextvars.copy_context()
    # A daemon, so that a function that is stuck does not keep the process alive.
    thread = threading.Thread(target=context.run, args=(work,), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise OutOfTime
    if not errors:
        return results[0]
    if isinstance(errors[0], Exception):
        raise errors[0]
    # SystemExit and the like were meant for the thread, not for the run.
    raise RuntimeError(f"the function raised {errors[0]!r}") from errors[0]


async def _finish(result: Awaitable[Any], seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds) as limit:
            return await result
    except TimeoutError:
        # The function's own time-outs are failures like any other.
        if limit.expired():
            raise OutOfTime from None
        raise
