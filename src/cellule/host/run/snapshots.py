"""Automatic snapshots of a hosted world: taken between beats, saved to the CAS, then made the baseline.

A snapshot is due when the journal's tail since the last one is longer than the larger of
`SNAPSHOT_TAIL_BYTES` and half of what the last snapshot wrote, or when restoring its records and the cells
they changed would take longer than `SNAPSHOT_RESTORE_S`, or at a clean close with a tail worth it. The
baseline moves in one batch that expects the world's epoch, after every block is durable; restore then
starts there, and the journal notes it. The newest stay, as many as the world keeps, and the first.

A snapshot only makes the next start faster: whatever keeps one from being written or saved, the world goes
on, and it is tried again later, with growing pauses. A row tells everyone who looks (`host/trouble.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from cellule.errors import CelluleError, Fenced, Unavailable
from cellule.host.cas_fetch import fetch_nodes, put_blocks
from cellule.host.inbox.sends import Sent
from cellule.host.limits import (
    SNAPSHOT_CLOSE_BYTES,
    SNAPSHOT_LOOK_RECORDS,
    SNAPSHOT_RETRY_MOST_S,
    SNAPSHOT_RETRY_S,
    SNAPSHOT_SLICE_RECORDS,
)
from cellule.host.run.snapshot_rows import SnapshotRows, restore_s
from cellule.host.storage.policy import StoragePolicy
from cellule.host.storage.snapshot_list import horizon_of
from cellule.host.trouble import Trouble
from cellule.kernel.items import ControlItem
from cellule.kernel.limits import ERROR_TEXT_MAX
from cellule.kernel.need import Need, Pause
from cellule.sources import Clock
from cellule.store.cas import OVERTAKEN_ROOT, Cas
from cellule.store.engine import Engine
from cellule.values.cid import Cid
from cellule.values.link import Link

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
USUAL = StoragePolicy()
BECAUSE_DUE = ("cellule", "due")


_log = logging.getLogger("cellule.host")


class Snapshots:
    """Takes the snapshots of one hosted world."""

    def __init__(
        self, engine: Engine, cas: Cas, universe: UUID, world: UUID, epoch: bytes, clock: Clock, *,
        tail: Tail = NO_TAIL, policy: StoragePolicy = USUAL, first: int = 0, name: str = "",
        saved: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._rows = SnapshotRows(engine, cas, universe, world, epoch, first)
        self._cas = cas
        self._world = world
        self._name = name or str(world)
        self._clock = clock
        self._tail = tail.size
        self._start = self._owed_start = tail.start
        self._seen = 0  # the height at the last slice
        self._is_slow = False  # restoring would take too long, as of the height where that was looked at
        self._looked = 0
        self._policy = policy
        self._on_saved = saved
        self._last_ns = clock.monotonic_ns()  # when the last one was saved, or the world was opened
        self._because: tuple[str, str] | None = BECAUSE_DUE  # who and why, where nobody else notes it
        self._notes: list[Sent] = []  # on their way into the journal
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

    def count(self, size: int, settled: Sequence[Sent]) -> None:
        """The journal grew by this many bytes; a note of a snapshot is no reason for the next one."""
        if not any(note in settled for note in self._notes):
            self._tail += size
        if self._notes:
            self._notes = [note for note in self._notes if note not in settled]

    def ask(self, because: tuple[str, str] | None = None, *, at_once: bool = True) -> asyncio.Future[Taken]:
        """Take one at the next beat boundary, due or not; the future has its height and root.

        `because` is who asks and why, for the journal; without it whoever asks notes it.
        """
        future: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        self._because = because
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
        if self._asked or self._is_slow:
            return True
        every_s, trigger = self._policy.snapshot_every_s, self._policy.snapshot_bytes
        is_old = every_s is not None and self._clock.monotonic_ns() > self._last_ns + every_s * 1e9
        return self._tail > max(0 if is_old else trigger, 0 if is_old else self._state_bytes // 2)

    async def advance(self, hosted: WorldRunner) -> None:
        """Begin a snapshot that is due, or do the next bit of the one under way."""
        if self._job is None:
            ledger = hosted.world.ledger
            if ledger.height >= self._looked + SNAPSHOT_LOOK_RECORDS:
                self._looked = ledger.height
                self._is_slow = restore_s(ledger, self._start) > self._policy.snapshot_restore_s
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
                await self._save(hosted, job, self._root)
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
            await self._rows.tell(self._trouble)

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

    async def _save(self, hosted: WorldRunner, job: SnapshotJob, root: Cid) -> None:
        """Make the blocks durable, then the baseline."""
        await put_blocks(self._cas, job.blocks)
        assert self._since is not None
        await self._rows.save(job.height, root, self._since)
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
        self._last_ns = self._clock.monotonic_ns()
        if self._because is not None:
            horizon = await horizon_of(self._cas, root)
            arguments = {"height": job.height, "snapshot": Link(root), "horizon": horizon}
            self._notes.append(Sent(ControlItem("snapshot", *self._because, arguments, durable=True)))
            hosted.submit(self._notes[-1])
        self._because = BECAUSE_DUE
        self._on_saved()


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, CelluleError) else f"{type(error).__name__}: {error}"


def _refuse(futures: list[asyncio.Future[Taken]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # whoever asked may be gone
    futures.clear()
