"""Tasks that an adapter starts: none of them can end the loop that they share with everything else.

asyncio lets `SystemExit` and `KeyboardInterrupt` of a task through to whoever runs the loop, past every
`except`. In a task that an attempt started they become a `TaskExit`, an ordinary exception with the same
traceback, which fails the attempt that waits for the task. A coroutine is driven as it was; only these two
errors change, also where a garbage collection has the loop close an async generator, whoever began it.
Callbacks (`loop.call_soon`) are not looked after: no adapter needs to exit in one.

Rejected: a loop of its own for adapters, in a thread. Every attempt would pay for two hand-overs, and
adapters could not share clients with the app. Wrapping coroutines in an `async def`: one that is cancelled
before its first step would never begin the coroutine inside, which Python warns of.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from typing import Any

from cellule.effects.failure import safe_text


def _type_of_closing() -> type:
    async def nothing() -> AsyncIterator[None]:
        yield

    closing: Any = nothing().aclose()  # type: ignore[attr-defined]
    closing.close()
    return type(closing)


_CLOSING = _type_of_closing()
"""What a loop makes a task of when an async generator is collected: nobody tells in which context."""
_is_attempt: ContextVar[bool] = ContextVar("cellule_attempt", default=False)


class TaskExit(Exception):
    """A task that an adapter started raised `SystemExit` or `KeyboardInterrupt`."""


class TaskFactory:
    """Makes tasks as the loop did before, and those that an attempt starts so that they end nothing else."""

    def __init__(self, before: Callable[..., Any] | None) -> None:
        self.before = before
        self.pools = 0  # that use it

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **extras: Any) -> Any:
        """See `loop.set_task_factory`."""
        work = contained(work, extras.get("context"))
        if self.before is None:
            return asyncio.Task(work, loop=loop, **extras)
        return self.before(loop, work, **extras)


@asynccontextmanager
async def contained_tasks() -> AsyncIterator[None]:
    """Look after the tasks of attempts on this loop, until the last pool that asked for it is done."""
    loop = asyncio.get_running_loop()
    found = loop.get_task_factory()
    factory = found if isinstance(found, TaskFactory) else TaskFactory(found)
    factory.pools += 1
    if factory is not found:
        loop.set_task_factory(factory)
    try:
        yield
    finally:
        factory.pools -= 1
        if factory.pools == 0 and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


def begin_attempt() -> None:
    """What the current task starts from now on is an adapter's."""
    _is_attempt.set(True)


def contained(work: Any, context: Context | None) -> Any:
    """The coroutine of a new task, made harmless if an attempt starts it or nobody does."""
    is_attempt = _is_attempt.get() if context is None else context.get(_is_attempt, False)
    is_foreign = is_attempt or type(work) is _CLOSING
    return _Contained(work) if is_foreign and isinstance(work, Coroutine) else work


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises `TaskExit` where it would exit; all else is as it was."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work

    def __await__(self) -> Any:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        """Names and frames, for whoever shows a task."""
        return getattr(self._work, name)

    def send(self, value: Any, /) -> Any:
        """One step."""
        return self._step(self._work.send, value)

    def throw(self, *error: Any) -> Any:
        """One step, by an exception."""
        return self._step(self._work.throw, *error)

    def close(self) -> None:
        """Give it up."""
        self._step(self._work.close)

    def _step(self, step: Callable[..., Any], *given: Any) -> Any:
        try:
            return step(*given)
        except (SystemExit, KeyboardInterrupt) as error:
            text = f"a task of the adapter raised {type(error).__name__}: {safe_text(error)}".rstrip(": ")
            raise TaskExit(text).with_traceback(error.__traceback__) from error
