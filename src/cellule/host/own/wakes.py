"""What brings a world to work without a caller: its inbox, and its timers.

A bell rises in the commit that sets a world's `ready` row. It is read first, then the rows, then it is
watched, so that none is missed. Besides, all rows are looked at every second: timers fall due without a bell,
and a world that ended with items in its inbox has had its bell already.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol
from uuid import UUID

from cellule.errors import CelluleError, Corrupted, Fenced, InvariantBroken, Unavailable
from cellule.host.limits import LOOK_S, WAKE_PAGE
from cellule.host.own.directory import Directory, WorldInfo
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine
from cellule.store.tuples import unpack


class Awake(Protocol):
    """A world at work, as far as a waker needs it."""

    def ring(self, ready: bytes | None = None) -> None:
        """The inbox may have items."""


class Worlds(Protocol):
    """What a waker asks of the node whose worlds it wakes."""

    @property
    def engine(self) -> Engine:
        """The store."""

    @property
    def clock(self) -> Clock:
        """What timers are due by."""

    @property
    def directory(self) -> Directory:
        """The worlds there are."""

    def is_loaded(self, world: UUID) -> bool:
        """Tell whether a world is in memory."""

    def may_rouse(self, world: UUID) -> bool:
        """Tell whether a world may be opened without a caller."""

    async def hosted(self, info: WorldInfo) -> Awake:
        """The world at work, loaded if it is not."""

    def report(self, info: WorldInfo, error: CelluleError) -> None:
        """A person has to look at this world."""


class Waker:
    """Wakes the worlds of a node that owns its store."""

    def __init__(self, node: Worlds) -> None:
        self._node = node
        self._engine = node.engine

    async def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start to listen: a bell rung after this is heard. The tasks run until they are cancelled."""
        shards = range(keys.SHARDS)
        bells = await self._engine.read([keys.bell(shard) for shard in shards])
        watchers = [tasks.create_task(self._listen(shard, bells[shard])) for shard in shards]
        return [*watchers, tasks.create_task(self._look())]

    async def _listen(self, shard: int, seen: bytes | None) -> None:
        """Bring work from the inboxes of a shard's worlds to the worlds."""
        key = keys.bell(shard)
        begin, end = keys.ready_range(shard)
        while True:
            try:
                page = await self._engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
                for row, ready in page.items:
                    await self._rouse(row, ready)
                await self._engine.watch(key, seen)
                [seen] = await self._engine.read([key])
            except Unavailable:
                await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Wake worlds whose timers are due, or whose items were left behind."""
        while True:
            with suppress(Unavailable):
                for row in [*await self._due(), *await self._left()]:
                    if not self._node.is_loaded(_ids(row)[1]):
                        await self._rouse(row)
            await asyncio.sleep(LOOK_S)

    async def _due(self) -> list[bytes]:
        """The `wake` rows whose time has come; one read tells, unless very many worlds sleep."""
        now_ns = self._node.clock.now_ns()
        begin, end = keys.wake_range(0)[0], keys.wake_range(keys.SHARDS - 1)[1]
        page = await self._engine.scan(begin, end, limit=WAKE_PAGE)
        rows = [row for row, _ in page.items]
        if page.more:
            rows = []
            for shard in range(keys.SHARDS):
                due = await self._engine.scan(*keys.wake_range(shard, now_ns), limit=WAKE_PAGE)
                rows.extend(row for row, _ in due.items)
        return [row for row in rows if _due_ns(row) <= now_ns]

    async def _left(self) -> list[bytes]:
        """The `ready` rows."""
        begin, end = keys.ready_range(0)[0], keys.ready_range(keys.SHARDS - 1)[1]
        page = await self._engine.scan(begin, end, limit=WAKE_PAGE)
        return [row for row, _ in page.items]

    async def _rouse(self, row: bytes, ready: bytes | None = None) -> None:
        """Load the world a row names, and tell it what its `ready` row holds; one of a deleted world goes."""
        universe, world = _ids(row)
        if not self._node.may_rouse(world):
            return
        info = await self._node.directory.listed(universe, world)
        if info is None:
            await self._engine.commit(Batch(clear=[row]))
            return
        try:
            (await self._node.hosted(info)).ring(ready)
        except Fenced:
            return  # another owner has it
        except (Corrupted, InvariantBroken) as error:
            self._node.report(info, error)


def _ids(row: bytes) -> tuple[UUID, UUID]:
    *_, universe, world = unpack(row)
    assert isinstance(universe, UUID)
    assert isinstance(world, UUID)
    return universe, world


def _due_ns(row: bytes) -> int:
    due_ns = unpack(row)[2]
    assert isinstance(due_ns, int)
    return due_ns
