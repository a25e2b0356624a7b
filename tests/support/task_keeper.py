"""Keeps a session as a task of the loop: for simulation, where there is one thread and no busy loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from cellule.host.own.keeper import Keep, Signals
from cellule.store.engine import Engine


class TaskKeeper:
    """Keeps by a task of the running loop, with this engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def running(self, keep: Keep) -> AsyncIterator[Callable[[], None]]:
        """See `Keeper`."""
        began = asyncio.Event()
        signals = Signals(began.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_kept(keep, self._engine, signals), name="session")
                await began.wait()
                try:
                    yield signals.nudge.set
                finally:
                    signals.stop()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None


async def _kept(keep: Keep, engine: Engine, signals: Signals) -> None:
    await keep(engine, signals)
