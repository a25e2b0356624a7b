"""Scheduled callbacks with labels that hold no memory address, so that schedules can be compared."""

from __future__ import annotations

import asyncio
from functools import partial

from cellule.testing.tasks import NumberedFuture, NumberedTask


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
