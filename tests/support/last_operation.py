"""A store whose process ends at one of its durable operations, counted from a moment on.

Durable operations are commits of the engine and puts and deletes of the object store, in the order in which
they are begun. `LastOperation` names one and what becomes of it; `wrapped` gives the engine and the objects
that heed it. Nobody who waits for an answer after the end gets one, as with `FaultyEngine.crash`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from cellule.errors import OutcomeUnknown, Unavailable
from cellule.store.engine import Engine
from cellule.store.object_store import WHOLE_BYTES_MAX, ObjectPage, ObjectStore, Source
from cellule.store.resource import Resource
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import Fate, Fault, Operation
from cellule.testing.faulty_engine import FaultyEngine

ENDS = (Fate.CRASH_LOST, Fate.CRASH_APPLIED)
FAILURES = (Fate.UNAVAILABLE, Fate.UNKNOWN_LOST, Fate.UNKNOWN_APPLIED)


@dataclass(slots=True)
class LastOperation:
    """The `number`-th operation, from 1, after `armed` was set ends like `fate`."""

    number: int
    fate: Fate
    armed: bool = False
    count: int = 0

    @property
    def reached(self) -> bool:
        """Tell whether there was such an operation."""
        return self.count >= self.number

    def next(self) -> Fate:
        """What becomes of the operation that begins now."""
        self.count += self.armed
        return self.fate if self.armed and self.count == self.number else Fate.ANSWERED

    def fault(self, operation: Operation, _number: int, _entropy: SeededEntropy) -> Fault:
        """See `FaultSource`."""
        return Fault(self.next()) if operation == "commit" else Fault()

    def late_ns(self, _entropy: SeededEntropy) -> int:
        """See `FaultSource`; nothing arrives late."""
        return 0


def wrapped(
    engine: Engine, objects: ObjectStore | None, last: LastOperation
) -> tuple[FaultyEngine, ObjectStore | None]:
    """The store as a process has it that ends at that operation."""
    faulty = FaultyEngine(engine, last)
    return faulty, None if objects is None else _Objects(objects, faulty, last)


class _Objects(Resource):
    def __init__(self, objects: ObjectStore, engine: FaultyEngine, last: LastOperation) -> None:
        self._objects = objects
        self._engine = engine
        self._last = last

    @property
    def remote(self) -> bool:
        return self._objects.remote

    async def put(self, name: str, data: Source) -> None:
        fate = await self._begin()
        if fate not in (Fate.CRASH_LOST, Fate.UNKNOWN_LOST, Fate.UNAVAILABLE):
            await self._objects.put(name, data)
        await self._end(fate)

    async def delete(self, name: str) -> None:
        fate = await self._begin()
        if fate not in (Fate.CRASH_LOST, Fate.UNKNOWN_LOST, Fate.UNAVAILABLE):
            await self._objects.delete(name)
        await self._end(fate)

    async def get(self, name: str, *, bytes_max: int = WHOLE_BYTES_MAX) -> bytes:
        await self._alive()
        return await self._objects.get(name, bytes_max=bytes_max)

    async def stream(self, name: str) -> AsyncGenerator[bytes, None]:
        await self._alive()
        async for piece in self._objects.stream(name):
            yield piece

    async def size(self, name: str) -> int:
        await self._alive()
        return await self._objects.size(name)

    async def list(self, prefix: str, *, limit: int, start_after: str = "") -> ObjectPage:
        await self._alive()
        return await self._objects.list(prefix, limit=limit, start_after=start_after)

    async def close(self) -> None:
        """The store itself is closed by whoever opened it."""

    async def _begin(self) -> Fate:
        await self._alive()
        return self._last.next()

    async def _end(self, fate: Fate) -> None:
        if fate in ENDS:
            self._engine.crash()
        await self._alive()
        if fate is Fate.UNAVAILABLE:
            raise Unavailable("testing.unavailable", "injected: the object store did not answer")
        if fate in (Fate.UNKNOWN_LOST, Fate.UNKNOWN_APPLIED):
            raise OutcomeUnknown("testing.outcome_unknown", "injected: the answer was lost")

    async def _alive(self) -> None:
        while self._engine.has_crashed():
            await asyncio.get_running_loop().create_future()
