"""Where a session is kept alive: on a thread with an own loop and engine.

A node's loop may be busy for longer than a session lasts: a beat of long steps, user code that blocks. The
thread goes on meanwhile; what stops the whole process stops it too, and that is what sessions are for.

Rejected: connections shared by both loops. Those of asyncpg belong to the loop that made them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from cellule.store.engine import Engine


@dataclass(slots=True)
class Signals:
    """What the node tells its keeper, and the keeper the node; `began` is called behind the first turn."""

    began: Callable[[], None]
    nudge: asyncio.Event = field(default_factory=asyncio.Event)
    is_stopping: bool = False

    def stop(self) -> None:
        """Let go of the session, and end."""
        self.is_stopping = True
        self.nudge.set()


Keep = Callable[[Engine, Signals], Awaitable[None]]
"""Keeps a session by an engine until it is told to stop."""


class Keeper(Protocol):
    """See the module."""

    def running(self, keep: Keep) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Keep until the block ends, which begins behind the first turn; gives what makes it look at once."""


class ThreadKeeper:
    """Keeps on a thread, with an engine that is opened there."""

    def __init__(self, open_engine: Callable[[], Awaitable[Engine]]) -> None:
        self._open_engine = open_engine

    @asynccontextmanager
    async def running(self, keep: Keep) -> AsyncIterator[Callable[[], None]]:
        """See `Keeper`."""
        loop = asyncio.get_running_loop()
        began: asyncio.Future[None] = loop.create_future()
        ended: asyncio.Future[None] = loop.create_future()
        inside: list[tuple[asyncio.AbstractEventLoop, Signals]] = []

        async def main() -> None:
            signals = Signals(lambda: _call(loop, _settle, began, None))
            inside.append((asyncio.get_running_loop(), signals))
            async with await self._open_engine() as engine:
                await keep(engine, signals)

        def body() -> None:
            failure: BaseException | None = None
            try:
                asyncio.run(main())
            except BaseException as error:  # noqa: BLE001 - raised where the block ends
                failure = error
            _call(loop, _settle, ended, failure)

        threading.Thread(target=body, name="cellule session", daemon=True).start()
        try:
            await asyncio.wait([began, ended], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
            yield lambda: _call(*_nudge(inside))
        finally:
            for theirs, signals in inside:
                _call(theirs, signals.stop)
            await asyncio.shield(ended)


def _nudge(
    inside: list[tuple[asyncio.AbstractEventLoop, Signals]],
) -> tuple[asyncio.AbstractEventLoop, Callable[[], None]]:
    [(theirs, signals)] = inside
    return theirs, signals.nudge.set


def _call(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    """Call on another thread's loop, unless that has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
