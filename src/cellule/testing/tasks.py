"""Tasks and futures that hash by creation number, and a description of where a task waits.

Invariant: a set of these objects of one loop iterates in the same order in every run. `asyncio.TaskGroup`
cancels its children in the order of such a set, and `asyncio.wait` returns two of them.

Rejected: patching TaskGroup to keep a list. The hash repairs every set of tasks, in every Python version.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Generator
from contextvars import Context
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_DEPTH_MAX = 50


class NumberedFuture(asyncio.Future[T]):
    """A future that hashes by its number."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[T]):
    """A task that hashes by its number and is named after it unless it was given a name."""

    def __init__(
        self,
        number: int,
        coroutine: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context | None,
        eager: bool,
    ) -> None:
        # Before the base class runs: it registers the task in a set, and an eager task takes its first step.
        self.number = number
        self.label = f"task {number} {getattr(coroutine, '__qualname__', type(coroutine).__qualname__)}"
        name = f"Task-{number}" if name is None else name
        if eager and sys.version_info >= (3, 12):
            super().__init__(coroutine, loop=loop, name=name, context=context, eager_start=True)
        else:
            super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number

    def is_unheard(self) -> bool:
        """Tell whether the task failed and nobody has looked at its exception."""
        return self.done() and bool(getattr(self, "_log_traceback", False))

    def abandon(self) -> None:
        """Give the task up for good, without a report when it is destroyed."""
        self._log_destroy_pending = False

    def where_waiting(self) -> str:
        """Name the task and the chain of awaits it is suspended in, outermost first."""
        frames = _suspended_frames(self.get_coro())
        shown = " -> ".join(_shown(frame) for frame in frames) or "not started"
        return f"{self.get_name()} ({self.label}): {shown}"


def _suspended_frames(awaited: object) -> list[FrameType]:
    """Follow what a coroutine awaits down to the future it is parked on."""
    frames: list[FrameType] = []
    for _ in range(_DEPTH_MAX):
        for frame_name, next_name in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom")):
            frame = getattr(awaited, frame_name, None)
            if frame is not None:
                frames.append(frame)
                awaited = getattr(awaited, next_name, None)
                break
        else:
            return frames
    return frames


def _shown(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"


class ReadyHandle(asyncio.Handle):
    """A callback that the loop will run."""

    __slots__ = ()

    def run(self) -> None:
        """Run the callback; an exception goes to the loop's exception handler."""
        self._run()


class TimerHandle(asyncio.TimerHandle):
    """A callback that the loop will run at a virtual time."""

    __slots__ = ()

    def run(self) -> None:
        """Run the callback; an exception goes to the loop's exception handler."""
        self._run()


def label_of(handle: asyncio.Handle) -> str:
    """Say what will run: a task by its number, anything else by its name."""
    callback = getattr(handle, "_callback", None)
    while isinstance(callback, partial):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, NumberedTask):
        return owner.label
    name = getattr(callback, "__qualname__", type(callback).__qualname__)
    for value in handle._args:  # noqa: SLF001 - asyncio has no other way to tell two calls of one function apart
        if isinstance(value, NumberedTask | NumberedFuture):
            return f"{name} {value.number}"
    return str(name)
