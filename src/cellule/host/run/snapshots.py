"""Automatic snapshots of a hosted world: taken between beats, saved to the CAS, then made the baseline.

A snapshot is due when the journal's tail since the last one is longer than the larger of
`SNAPSHOT_TAIL_BYTES` and half of what the last snapshot wrote, or when restoring its records and the cells
they changed would take longer than `SNAPSHOT_RESTORE_S`, or at a clean close with a tail worth it. The
baseline moves in one batch that expects the world's epoch, after every block is durable; restore then
starts there. The newest `SNAPSHOTS_KEPT` stay, and the first.

A snapshot only makes the next start faster: whatever keeps one from being written or saved, the world goes
on, and it is tried again later, with growing pauses. A row tells everyone who looks (`host/trouble.py`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from cellule.errors import CelluleError, Conflict, Fenced, Unavailable
from cellule.host.cas_fetch import fetch_nodes, put_blocks
from cellule.host.limits import (
    ATTEMPTS_MAX,
    SNAPSHOT_CLOSE_BYTES,
    SNAPSHOT_RESTORE_S,
    SNAPSHOT_RETRY_MOST_S,
    SNAPSHOT_RETRY_S,
    SNAPSHOT_SLICE_RECORDS,
    SNAPSHOT_TAIL_BYTES,
    SNAPSHOTS_KEPT,
)
from cellule.host.own.directory import baseline_row
from cellule.host.run.commits import fenced
from cellule.host.run.restore_time import restore_s
from cellule.host.trouble import Trouble
from cellule.kernel.limits import ERROR_TEXT_MAX
from cellule.kernel.need import Need, Pause
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.cas import OVERTAKEN_ROOT, Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cid import Cid

if TYPE_CHECKING:
    from cellule.host.run.world_runner import WorldRunner
    from cellule.kernel.state.snapshot import SnapshotJob
    from cellule.kernel.world import World

Taken = tuple[int, Cid]


class Tail(NamedTuple):
    """The journal since a snapshot: its bytes, and the height that the snapshot is of."""

    size: int = 0
    start: int = 0


NO_TAIL = Tail()


_log = logging.getLogger("cellule.host")


class Snapshots:
    """Takes the snapshots of one hosted world."""

    def __init__(
        self, engine: Engine, cas: Cas, universe: UUID, world: UUID, epoch: bytes, clock: Clock, *,
        tail: Tail = NO_TAIL, trigger_bytes: int = SNAPSHOT_TAIL_BYTES, name: str = "",
    ) -> None:  # fmt: skip
        self._engine = engine
        self._cas = cas
        self._universe = universe
        self._world = world
        self._name = name or str(world)
        self._epoch = epoch
        self._clock = clock
        self._tail = tail.size
        self._start = self._owed_start = tail.start
        self._seen = 0  # the height at the last slice
        self._is_slow = False  # restoring would take too long
        self._trigger = trigger_bytes
        self._state_bytes = 0
        self._job: SnapshotJob | None = None
        self._root: Cid | None = None  # of the job, once it is complete
        self._since: int | None = None  # the collection generation before any unsaved block was put
        self._asked_for: Need | Pause | None = None  # by the last slice, to be done before the next
        self._written = 0
        self._owed = 0  # the tail that the snapshot under way is to shorten
        self._beat = 0
        self._retry_ns: int | None = None
        self._trouble: Trouble | None = None
        self._asked: list[asyncio.Future[Taken]] = []
        self._promised: list[asyncio.Future[Taken]] = []

    @property
    def has_work(self) -> bool:
        """Tell whether there is something to do now: a slice to write, or a snapshot that was asked for."""
        if self._job is None and not self._asked and not (self._trouble is not None and self._is_due):
            return False
        return self.pause_s() is None

    def pause_s(self) -> float | None:
        """How long to wait before saving is tried again; None where nothing waits."""
        if self._retry_ns is None:
            return None
        left_ns = self._retry_ns - self._clock.monotonic_ns()
        return left_ns / 1e9 if left_ns > 0 else None

    def count(self, size: int) -> None:
        """The journal grew by this many bytes."""
        self._tail += size

    def ask(self, *, at_once: bool = True) -> asyncio.Future[Taken]:
        """Take one at the next beat boundary, due or not; the future has its height and root."""
        future: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        if at_once:
            self._retry_ns = None  # whoever wants it now is told if it fails again
        return future

    def abandon(self, error: BaseException) -> None:
        """The world ends: nobody gets the snapshot they asked for."""
        _refuse([*self._asked, *self._promised], error)

    def renew(self) -> None:
        """The world was restored: the snapshot under way was of the old one, and is begun again."""
        self._since = None
        if self._job is not None:
            self._asked, self._promised = [*self._promised, *self._asked], []
            self._retry_ns = None
            self._forget()

    def _forget(self) -> None:
        """The snapshot under way counts no more."""
        self._job = self._root = self._asked_for = None
        self._tail += self._owed
        self._owed = 0
        self._start = self._owed_start

    @property
    def _is_due(self) -> bool:
        return bool(self._asked) or self._is_slow or self._tail > max(self._trigger, self._state_bytes // 2)

    async def advance(self, hosted: WorldRunner) -> None:
        """Begin a snapshot that is due, or do the next bit of the one under way."""
        if self._job is None:
            self._is_slow = restore_s(hosted.world.ledger, self._start) > SNAPSHOT_RESTORE_S
            if not self._is_due or self.pause_s() is not None:
                return
            self._begin(hosted)
        grown = hosted.world.ledger.height - self._seen
        self._seen += grown
        if self.pause_s() is None:
            await self._slice(hosted)
        for _ in range(grown // SNAPSHOT_SLICE_RECORDS):  # large beats do not outrun it
            if self._job is None or self.pause_s() is not None:
                return
            await self._slice(hosted)

    async def at_close(self, hosted: WorldRunner) -> None:
        """Finish, and take a last one if the tail is long enough to make the next start slower."""
        await self._finish(hosted)
        is_due = self._asked or self._tail > SNAPSHOT_CLOSE_BYTES
        if self._job is None and is_due and self._trouble is None:
            self._begin(hosted)
            await self._slice(hosted)
            await self._finish(hosted)

    async def _finish(self, hosted: WorldRunner) -> None:
        while self._job is not None and self._retry_ns is None:
            await self._slice(hosted)

    def _begin(self, hosted: WorldRunner) -> None:
        self._asked, self._promised = [], self._asked
        self._owed = self._tail
        self._tail = self._written = 0
        self._beat = hosted.world.ledger.beat
        self._owed_start, self._start = self._start, hosted.world.ledger.height
        self._seen = self._start
        self._is_slow = False

    async def _slice(self, hosted: WorldRunner) -> None:
        self._retry_ns = None
        try:
            if self._since is None:
                self._since = await self._cas.generation()
            job = self._job = self._job or hosted.world.snapshot()
            if self._root is None:
                await self._write(hosted.world)
            if self._root is not None:
                await hosted.wait_durable(self._beat)
                await self._save(job, self._root)
        except Fenced:
            raise
        except Unavailable as error:
            if error.code != OVERTAKEN_ROOT:
                await self._failed(hosted, error)
                return
            # Blocks of this snapshot may be collected by now, and memory has them no more.
            hosted.world.drop_snapshot()
            await hosted.renew()
        except Exception as error:  # noqa: BLE001 - whatever it is, the world can do without
            await self._failed(hosted, error)

    async def _failed(self, hosted: WorldRunner, error: Exception) -> None:
        """It cannot be written now: try again after a pause, from the start unless only the store failed."""
        _refuse(self._promised, error)
        trouble = self._trouble or Trouble(self._clock.now_ns(), 0, "")
        attempts = trouble.attempts + 1
        pause_s = SNAPSHOT_RETRY_S
        if not isinstance(error, Unavailable):
            pause_s = min(SNAPSHOT_RETRY_S * 2 ** min(attempts - 1, 20), SNAPSHOT_RETRY_MOST_S)
            hosted.world.drop_snapshot()
            self._forget()
            if attempts == 1:
                context = {"message": f"no snapshot of world {self._world}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        if attempts == 1:
            _log.warning(
                "world %s goes on without a new snapshot; it is tried again, after %g s at first: %s",
                self._name, pause_s, _said(error),
            )  # fmt: skip
        self._retry_ns = self._clock.monotonic_ns() + int(pause_s * 1e9)
        self._trouble = Trouble(trouble.since_ns, attempts, str(error)[:ERROR_TEXT_MAX])
        with suppress(Unavailable):
            await self._tell(self._trouble)

    async def _tell(self, trouble: Trouble) -> None:
        expect = {keys.world_epoch(self._universe, self._world): self._epoch}
        row = {keys.world_trouble(self._universe, self._world): trouble.row()}
        try:
            await self._engine.commit(Batch(expect=expect, set=row))
        except Conflict as error:
            raise fenced(self._world) from error

    async def _write(self, world: World) -> None:
        """Write one slice; nodes leave memory for the CAS on the way."""
        if isinstance(self._asked_for, Need):
            world.ledger.nodes.add(await fetch_nodes(self._cas, self._asked_for.cids))
        elif self._asked_for is not None:
            blocks = self._asked_for.blocks
            await put_blocks(self._cas, blocks)
            self._written += sum(map(len, blocks.values()))
            blocks.clear()
        self._asked_for = None
        answer = world.snapshot_slice()
        if isinstance(answer, Need | Pause):
            self._asked_for = answer
        else:
            self._root = answer

    async def _save(self, job: SnapshotJob, root: Cid) -> None:
        """Make the blocks durable, then the baseline."""
        await put_blocks(self._cas, job.blocks)
        rows = {
            keys.snapshot(self._universe, self._world, job.height): bytes(root),
            keys.world_baseline(self._universe, self._world): baseline_row(job.height, root),
        }
        outdated = [
            *await self._outdated(job.height), keys.world_trouble(self._universe, self._world)
        ]  # fmt: skip
        await self._commit(rows, outdated)
        self._since = None
        self._state_bytes = self._written + sum(map(len, job.blocks.values()))
        if self._trouble is not None:
            _log.info("world %s has a new snapshot, after %d that failed", self._name, self._trouble.attempts)
        self._job = self._root = self._trouble = None
        job.saved()
        for future in self._promised:
            if not future.done():
                future.set_result((job.height, root))
        self._promised = []

    async def _commit(self, rows: dict[bytes, bytes], clear: list[bytes]) -> None:
        """Root the snapshot, under this owner, and safe from a collection that begins meanwhile."""
        assert self._since is not None
        epoch = keys.world_epoch(self._universe, self._world)
        for _ in range(ATTEMPTS_MAX):
            parts = await self._cas.witness(self._since)
            try:
                batch = Batch(expect={epoch: self._epoch}, set=rows, clear=clear)
                await self._engine.commit(parts.into(batch))
            except Conflict as error:
                if await self._engine.read([epoch]) != [self._epoch]:
                    raise fenced(self._world) from error
            else:
                return
        raise Unavailable("host.snapshot_contended", "collections begin again and again while it is saved")

    async def _outdated(self, height: int) -> list[bytes]:
        """The rows of snapshots that are no longer kept."""
        if not height:
            return []
        begin, end = keys.snapshot_range(self._universe, self._world, 1, height - 1)
        page = await self._engine.scan(begin, end, limit=100, reverse=True)
        return [key for key, _ in page.items[SNAPSHOTS_KEPT - 1 :]]


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, CelluleError) else f"{type(error).__name__}: {error}"


def _refuse(futures: list[asyncio.Future[Taken]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # whoever asked may be gone
    futures.clear()
