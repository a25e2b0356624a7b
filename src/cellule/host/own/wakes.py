"""What brings a world to work without a caller: its inbox, and its timers.

A bell rises in the commit that sets a world's `ready` row. It is read first, then the rows, then it is
watched, so that none is missed. Besides, every second a page of `ready` rows is looked at, because a world
that ended with items in its inbox has had its bell already; and the `wake` rows of shards where one is due.
When that is, is known from the last look: a world that leaves memory has its shard looked at again, so worlds
that sleep cost nothing. A damaged row is told by the name of its world, and holds back no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from cellule.errors import CelluleError, Corrupted, Fenced, InvariantBroken, Rejected, Unavailable
from cellule.host.limits import FAILED_REST_S, LOOK_S, WAKE_PAGE
from cellule.host.own.directory import Directory, WorldInfo
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine
from cellule.store.sound_scan import sound_scan
from cellule.store.tuples import INT_MAX, unpack


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

    def report_store(self, error: CelluleError) -> None:
        """A person has to look at the store."""


class Waker:
    """Wakes the worlds of a node that owns its store."""

    def __init__(self, node: Worlds) -> None:
        self._node = node
        self._engine = node.engine
        self._next_ns = [0] * keys.SHARDS  # when a world of the shard is due; 0: it is not known
        self._left_begin = keys.ready_range(0)[0]

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
                page, damaged = await sound_scan(self._engine, begin, end, limit=SCAN_LIMIT_MAX)
                for row, error in damaged.items():
                    await self._tell(row, error)
                await self._rouse_all(dict(page.items))
                await self._engine.watch(key, seen)
                [seen] = await self._engine.read([key])
            except Unavailable:
                await asyncio.sleep(LOOK_S)
            except Corrupted as error:  # of the store, below its rows
                self._node.report_store(error)
                await asyncio.sleep(FAILED_REST_S)

    def leaves(self, world: UUID) -> None:
        """A world leaves memory: from now on its `wake` row is all that wakes it."""
        self._next_ns[keys.shard_of(world)] = 0

    async def _look(self) -> None:
        """Wake worlds whose timers are due, or whose items were left behind."""
        while True:
            pause_s = LOOK_S
            try:
                rows = [*await self._due(), *await self._left()]
                await self._rouse_all(dict.fromkeys(each for each in rows if not self._is_loaded(each)))
            except Unavailable:
                pass
            except Corrupted as error:
                self._node.report_store(error)
                pause_s = FAILED_REST_S
            await asyncio.sleep(pause_s)

    async def _due(self) -> list[bytes]:
        """The `wake` rows whose time has come, of shards where one is due."""
        now_ns = self._node.clock.now_ns()
        rows: list[bytes] = []
        for shard in range(keys.SHARDS):
            if self._next_ns[shard] <= now_ns:
                rows += await self._due_in(shard, now_ns)
        return rows

    async def _due_in(self, shard: int, now_ns: int) -> list[bytes]:
        """The `wake` rows of a shard whose time has come; where there are none, when the next is due."""
        self._next_ns[shard] = INT_MAX  # before the look: a world that leaves meanwhile asks for another
        begin, end = keys.wake_range(shard)
        page, damaged = await sound_scan(self._engine, begin, end, limit=WAKE_PAGE)
        rows = sorted([*(row for row, _ in page.items), *damaged])
        due = [row for row in rows if _due_ns(row) <= now_ns]
        for row in damaged:
            await self._tell(row, damaged[row])
        if page.more or due:
            self._next_ns[shard] = 0
        elif rows:
            self._next_ns[shard] = min(self._next_ns[shard], _due_ns(rows[0]))
        return [row for row in due if row not in damaged]

    async def _left(self) -> list[bytes]:
        """A page of the `ready` rows, and the next one at the next look."""
        end = keys.ready_range(keys.SHARDS - 1)[1]
        page, damaged = await sound_scan(self._engine, self._left_begin, end, limit=WAKE_PAGE)
        for row, error in damaged.items():
            await self._tell(row, error)
        seen = sorted([*(row for row, _ in page.items), *damaged])
        self._left_begin = seen[-1] + b"\0" if page.more and seen else keys.ready_range(0)[0]
        return [row for row, _ in page.items]

    async def _tell(self, row: bytes, error: Corrupted) -> None:
        """A row that wakes a world is damaged: say which world that is, now and then."""
        universe, world = _ids(row)
        if not self._node.may_rouse(world):
            return
        try:
            info = await self._node.directory.listed(universe, world)
        except Corrupted:
            info = None
        self._node.report(info or WorldInfo(world, universe, str(world), 0), error)

    def _is_loaded(self, row: bytes) -> bool:
        return self._node.is_loaded(_ids(row)[1])

    async def _rouse_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Rouse the worlds of these rows; one that cannot be reached now holds back no other."""
        failed: Unavailable | None = None
        for row, ready in rows.items():
            try:
                await self._rouse(row, ready)
            except Unavailable as error:
                failed = error
        if failed is not None:
            raise failed

    async def _rouse(self, row: bytes, ready: bytes | None = None) -> None:
        """Load the world a row names, and tell it what its `ready` row holds; one of a deleted world goes."""
        universe, world = _ids(row)
        if not self._node.may_rouse(world):
            return
        try:
            info = await self._node.directory.listed(universe, world)
        except Corrupted as error:
            self._node.report(WorldInfo(world, universe, str(world), 0), error)
            return
        if info is None:
            await self._engine.commit(Batch(clear=[row]))
            return
        try:
            (await self._node.hosted(info)).ring(ready)
        except Fenced:
            return  # another owner has it
        except (Corrupted, InvariantBroken, Rejected) as error:
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
