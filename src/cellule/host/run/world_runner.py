"""One world at work on its owner: two tasks, one that beats and one that commits.

Sends and inbox rows join the next beat. While a commit is under way one finished beat may wait behind it and
further items gather, so under load beats grow and commits are shared; alone, an event goes through at
once. Work the world makes for itself (what steps emit) goes on meanwhile, within limits. Nothing is
acknowledged, read or dispatched before it is durable, nor after this node has lost the world. `Fenced`
and `Corrupted` end the world here; what else the kernel may raise is contained (`containment.py`).
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError, Fenced, Unavailable
from cellule.host.inbox.inbox import Inbox, Taken
from cellule.host.inbox.requests import Request, Requests
from cellule.host.inbox.sends import Sent, ended_by, lost
from cellule.host.journal import Head
from cellule.host.limits import (
    BEAT_ITEMS_EARLY,
    BEAT_ITEMS_MAX,
    CLOCK_LOOK_S,
    COMMIT_BYTES_MAX,
    DIRECT_MAX,
    STALL_S,
    UNCOMMITTED_BEATS_MAX,
    UNCOMMITTED_BYTES_MAX,
)  # fmt: skip
from cellule.host.outbox.receipts import Rows
from cellule.host.run.beat_clock import BeatClock
from cellule.host.run.bell import Bell
from cellule.host.run.commits import Committer, Finished, fenced
from cellule.host.run.containment import Containment, is_contained
from cellule.host.run.deliveries import Deliveries
from cellule.host.run.outgoing import Dispatch, outgoing_of
from cellule.host.run.questions import Question, Questions
from cellule.host.run.snapshots import Snapshots
from cellule.host.run.spill import close_spill
from cellule.host.store_retry import StoreRetry
from cellule.kernel.items import Beat, ControlItem, RefusalItem
from cellule.kernel.need import Need
from cellule.kernel.state.cell_pages import count_cells
from cellule.kernel.state.cells import Entry
from cellule.kernel.world import World
from cellule.sources import Clock, Entropy
from cellule.store.cas import Cas
from cellule.values.cid import Cid


class WorldRunner:
    """A loaded world and its two tasks; made by the loader, run and ended by the node."""

    def __init__(
        self, world: World, universe: UUID, committer: Committer, cas: Cas, inbox: Inbox,
        snapshots: Snapshots, clock: Clock, entropy: Entropy, *, stall_s: float = STALL_S,
        dispatch: Dispatch | None = None, is_valid: Callable[[], bool] = lambda: True,
        restore: Callable[[], Awaitable[World]] | None = None, name: str = "",
    ) -> None:  # fmt: skip
        self.world = world
        self._restore = restore
        self._containment = Containment()
        self.universe = universe
        self._committer = committer
        self._cas, self._inbox = cas, inbox
        self._snapshots = snapshots
        self._clock = clock
        self._entropy = entropy
        self._time = BeatClock(clock, str(world.world_id), world.ledger.now_ns)
        self._dispatch = dispatch
        self._is_valid = is_valid
        self._reading = StoreRetry(clock, stall_s, self._stall)
        self._writing = StoreRetry(clock, stall_s, self._stall)
        self._deliveries = Deliveries(world.ledger, name or str(world.world_id))
        self._direct: deque[Sent] = deque()
        self._beating: list[Sent] = []
        self._finished: deque[Finished] = deque()
        self._finished_bytes = 0
        self._flying: list[Finished] = []
        self._newest = committer.head
        self._work = Bell()
        self._beats_ready = Bell()
        self._room = asyncio.Event()
        self._questions = Questions(world, self._fetch)
        self._requests = Requests(lambda: snapshots.ask(at_once=False), self._answer)
        self._wake_ns: int | None = None
        self._more = True
        self._closing = False
        self._rested = False
        self.ended: CelluleError | None = None
        self.idle_since_ns = clock.monotonic_ns()

    @property
    def head(self) -> Head:
        """The newest durable frame."""
        return self._committer.head

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is under way or waiting here."""
        if self._time.is_held and self._wake_ns is not None:
            return False  # its time passes only in memory
        return not (self._has_work() or self._finished or self._flying or self._snapshots.has_work)

    @property
    def was_cut_off(self) -> bool:
        """Tell whether it ended with a commit under way, which may yet arrive."""
        return self.ended is not None and bool(self._flying)

    @property
    def accepts(self) -> bool:
        """Tell whether items and questions are still taken; while it closes, until it is at rest."""
        return self.ended is None and not self._rested

    # For senders and readers

    def offer(self, sent: Sent) -> bool:
        """Put one item into the next beat if nothing speaks against it: the way of almost all events."""
        direct, work = self._direct, self._work
        if (
            self._closing or self.ended is not None or len(direct) > DIRECT_MAX or self._writing.trouble
            or self._reading.trouble or get_running_loop() is not work.loop
        ):  # fmt: skip
            return False
        direct.append(sent)
        if not work.rung:
            work.ring()
        return True

    def submit(self, *sents: Sent) -> None:
        """Put items into the next beat; where that cannot be, they fail at once."""
        trouble = self._writing.trouble or self._reading.trouble if self.accepts else self._gone()
        if trouble is not None:
            for sent in sents:
                sent.fail(lost(sent, self.world.world_id, trouble, submitted=False))
            return
        self._direct.extend(sents)
        self._work.ring()

    async def wait_room(self) -> None:
        """Wait while so many items wait for a beat that senders should wait."""
        while len(self._direct) > DIRECT_MAX and self.ended is None:
            self._room.clear()
            await self._room.wait()

    async def look(self, base: str, key: bytes) -> Entry | None:
        """A cell as of the newest beat, once everything that beat could see is durable."""
        found: Entry | None = await self.ask(lambda: self.world.look(base, key))
        return found

    async def count(self, base: str) -> int:
        """How many cells a module has."""
        found: int = await self.ask(lambda: count_cells(self.world.ledger, base))
        return found

    async def ask(self, question: Question) -> Any:
        """Ask the world something between beats; the answer is released when what it saw is durable."""
        if not self.accepts:
            raise self._gone()
        answer = self._questions.put(question)
        self._work.ring()
        self.idle_since_ns = self._clock.monotonic_ns()
        beat, found = await answer
        await self.wait_durable(beat)
        self._check_valid()
        return found

    async def wait_durable(self, beat: int) -> None:
        """Wait until this beat is committed."""
        if beat <= self.head.beat:
            return
        if self.ended is not None:
            raise self._gone()
        await self._questions.until(beat)

    async def wait_rest(self) -> None:
        """Wait until there is nothing to do: no item, no message that may run, no timer that is due."""
        while not self._is_resting():
            if not self.accepts:
                raise self._gone()
            await self._questions.until_rest()

    async def snapshot_now(self, who: str = "cellule", why: str = "asked for") -> tuple[int, Cid]:
        """Take a snapshot at the next beat boundary, and return its height and root."""
        if not self.accepts:
            raise self._gone()
        taken = self._snapshots.ask((who, why))
        self._work.ring()
        return await taken

    def bring(self, rows: Rows, ready: bytes) -> None:
        """The inbox has these rows, written by this node; see `Inbox.bring`."""
        self._inbox.bring(rows, ready)
        self._work.ring()

    def ring(self, ready: bytes | None = None) -> None:
        """The inbox may have items; see `Inbox.ring`."""
        self._inbox.ring(ready)
        self._work.ring()

    async def run(self) -> None:
        """Work until closed, or until an error ends the world; `ended` says which."""
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._commit_loop())
                await self._beat_loop()
                self._rested = True
                self._beats_ready.ring()
        except BaseExceptionGroup as group:
            failure = group.exceptions[0]
        except asyncio.CancelledError as error:
            failure = error
        self._end(ended_by(self.world.world_id, failure))
        if failure is not None and not isinstance(failure, Exception):
            raise failure

    def close(self) -> None:
        """Finish what was accepted, and stop; `run` then returns."""
        self._closing = self._reading.is_ending = self._writing.is_ending = True
        self._work.ring()

    # Beating

    def _has_work(self) -> bool:
        return bool(self._direct or self._more or self._inbox.has_items or self._questions.waiting)

    def _is_resting(self) -> bool:
        due = self._wake_ns is not None and self._wake_ns <= self._time.now_ns()
        return not (self._direct or self._beating or self._more or self._inbox.has_items or due)

    def _must_go_on(self) -> bool:
        return self._has_work() or self._closing or self._snapshots.has_work

    async def _beat_loop(self) -> None:
        while True:
            await self._wait_work()
            if self._questions.waiting:
                await self._questions.answer(self._newest.beat)
                if self._is_resting() and not self._must_go_on():
                    continue  # it was only asked
            if self._closing and not self._has_work():
                if self._inbox.waits:  # for the commit under way; a last look follows
                    self._room.clear()
                    await self._room.wait()
                    continue
                await self._snapshots.at_close(self)
                if not self._has_work():
                    return
            await self._beat()
            await self._snapshots.advance(self)
            if self._must_go_on():  # else it waits below
                await asyncio.sleep(0)

    async def _wait_work(self) -> None:
        while not self._must_go_on():
            self._work.silence()
            self._questions.rests()
            wait_s = self._snapshots.pause_s()
            if self._wake_ns is not None:
                due_s = (self._wake_ns - self._time.now_ns()) / 1e9
                if due_s <= 0:
                    return
                wait_s = min(due_s, CLOCK_LOOK_S if wait_s is None else wait_s)
            await self._work.wait(wait_s)
        while self._must_wait():
            self._room.clear()
            await self._room.wait()

    def _is_crowded(self) -> bool:
        """Tell whether a beat waits behind a commit: then new items gather for the next one."""
        return bool(self._finished and self._flying)

    def _must_wait(self) -> bool:
        if not self._is_crowded():
            return False
        full = len(self._finished) >= UNCOMMITTED_BEATS_MAX or self._finished_bytes > UNCOMMITTED_BYTES_MAX
        return full or not self._more

    async def _fetch(self, need: Need) -> dict[Cid, bytes]:
        return await self._reading.call(lambda: self._committer.bring(need, self.world.ledger.keys))

    async def _beat(self) -> None:
        rows: dict[int, bytes] = {}
        sents: list[Sent] = []
        ready: bytes | None = None
        if not self._is_crowded():
            usual = BEAT_ITEMS_MAX if self._flying or self._finished else BEAT_ITEMS_EARLY
            most = self._containment.items_max(usual)
            if most and self._inbox.has_items:
                taken, ready = await self._take_inbox(most)
                rows = {id(row.sent): row.key for row in taken}
                sents = [row.sent for row in taken]
            direct = self._direct
            if len(direct) <= most - len(sents):
                sents += direct
                direct.clear()
            while direct and len(sents) < most:
                sents.append(direct.popleft())
        self._beating = sents
        self.idle_since_ns = self._clock.monotonic_ns()
        try:
            beat = await self._decide([sent.item for sent in sents])
        except Exception as error:
            if self._restore is None or not is_contained(error):
                raise
            if ready is not None:  # the look that found the inbox empty is lost with the beat
                self._inbox.ring()
            await self._containment.failed(self, error, sents, rows)
        else:
            self._account(beat, sents, rows, ready)
            self._containment.passed(len(sents))
        self._beating = []

    async def _decide(self, items: list[Any], *, quiet: bool = False) -> Beat:
        now_ns, entropy = self._time.for_beat(items), self._entropy.bytes(16)
        answer = self.world.beat(items, now_ns, entropy, quiet=quiet)
        while isinstance(answer, Need):
            answer = self.world.resume(await self._fetch(answer))
        return answer

    async def _take_inbox(self, limit: int) -> Taken:
        """Items for the beat; requests are begun, and the inbox is not empty until they are answered."""
        taken = await self._reading.call(lambda: self._inbox.take(limit))
        rows = []
        for row in taken.rows:
            if isinstance(row.sent.item, Request):
                self._requests.begin(row.sent.item, row.key)
            else:
                rows.append(row)
        return Taken(rows, None if self._requests.waiting else taken.ready)

    def _answer(self, note: ControlItem | RefusalItem, key: bytes) -> None:
        """A request is done: what notes it takes the place of its row."""
        self._inbox.put_back(Sent(note), key)
        self._work.ring()

    def _account(self, beat: Beat, sents: list[Sent], rows: dict[int, bytes], ready: bytes | None) -> None:
        """Queue the beat for the disk, with everyone who waits for it."""
        self._more, self._wake_ns = beat.more, beat.wake
        settled, later = self._deliveries.admit(beat, sents)
        completed = self._deliveries.complete(beat)
        if later:
            ready = self._put_back(later, rows, ready)
        consumed = [rows[id(sent)] for sent in settled if id(sent) in rows] if rows else []
        if beat.frame is not None:
            self._newest = Head(beat.last, self.world.ledger.beat, self.world.ledger.frame, beat.wake)
        elif not (settled or completed or consumed or ready):
            return
        outgoing = outgoing_of(self.universe, self.world.world_id, beat, self._clock.now_ns())
        finished = Finished(
            beat.frame, self._newest, beat.blocks, settled, completed, consumed, ready, outgoing, beat.batch,
            self._deliveries.log.take(), beat.keys,
        )  # fmt: skip
        self._finished.append(finished)
        self._finished_bytes += finished.size
        self._beats_ready.ring()

    def _put_back(self, later: list[Sent], rows: dict[int, bytes], ready: bytes | None) -> bytes | None:
        for sent in reversed(later):
            if id(sent) in rows:
                self._inbox.put_back(sent, rows[id(sent)])
                ready = None
            else:
                self._direct.appendleft(sent)
        return ready

    # After a beat that failed, for `containment.py`

    async def renew(self) -> None:
        """Restore the world once all its beats are durable; it goes on from there, the general way."""
        assert self._restore is not None
        while self._finished or self._flying:
            self._room.clear()
            await self._room.wait()
        close_spill(self.world.ledger.spill)
        self.world = world = await self._reading.call(self._restore)
        self._deliveries.renew(world.ledger)
        self._questions.renew(world)
        self._snapshots.renew()
        self._newest, self._more = self._committer.head, True

    async def beat_quietly(self, sents: list[Sent], rows: dict[int, bytes]) -> None:
        """Do a beat that admits these and does nothing else."""
        beat = await self._decide([sent.item for sent in sents], quiet=True)
        self._account(beat, sents, rows, None)

    def put_back(self, sents: list[Sent], rows: dict[int, bytes]) -> None:
        """Items of a beat that failed go back in line, in their order."""
        self._put_back(sents, rows, None)
        self._beating = []

    def drop_row(self, row: bytes) -> None:
        """Clear an inbox row without a record."""
        self._finished.append(Finished(None, self._newest, {}, [], inbox=[row]))
        self._beats_ready.ring()

    async def keep_aside(self, row: bytes, why: str) -> None:
        """Keep what an inbox row holds for a person."""
        await self._writing.call(lambda: self._committer.keep_aside(row, why, self._clock.now_ns()))

    # Committing

    async def _commit_loop(self) -> None:
        while True:
            if not self._finished:
                if self._rested:
                    return
                self._beats_ready.silence()
                await self._beats_ready.wait()
                continue
            self._flying = group = self._take()
            if await self._committer.commit(group, self._writing):
                self.ring()
            self._check_valid()  # else it is durable, but not this node that may say so
            self._flying = []
            for finished in group:
                self._made_durable(finished)
            self._room.set()
            if self._must_go_on():
                self._work.ring()

    def _take(self) -> list[Finished]:
        group = [self._finished.popleft()]
        size = group[0].size
        while self._finished and size + self._finished[0].size <= COMMIT_BYTES_MAX:
            group.append(self._finished.popleft())
            size += group[-1].size
        self._finished_bytes -= size
        return group

    def _made_durable(self, finished: Finished) -> None:
        self._inbox.forget(finished.inbox)
        if finished.frame is not None:
            self._snapshots.count(finished.size, finished.settled)
        if finished.outgoing is not None and self._dispatch is not None:
            self._dispatch(finished.outgoing)
        finished.release()
        self._questions.release(finished.head.beat)

    # Trouble, and the end

    def fence(self, error: Fenced) -> None:
        """Ownership is gone: tell everyone at once; whoever calls this ends `run` too."""
        self._end(error)

    def _check_valid(self) -> None:
        """Nothing is told to anyone unless this node owns the world at this moment."""
        if not self._is_valid():
            raise fenced(self.world.world_id)

    def _stall(self, error: Unavailable) -> None:
        """The store has failed for a while: tell everyone who waits; what was submitted is still tried."""
        self._tell(error, submitted=True)
        self._refuse_waiting(error)

    def _refuse_waiting(self, error: CelluleError) -> None:
        """Fail what is in no beat yet, and every question."""
        while self._direct:
            sent = self._direct.popleft()
            sent.fail(lost(sent, self.world.world_id, error, submitted=False))
        self._questions.refuse(error)
        self._room.set()

    def _tell(self, error: BaseException, *, submitted: bool) -> None:
        """Fail everyone whose beat is under way; `submitted` tells whether queued beats may get durable."""
        world = self.world.world_id
        for flying in self._flying:
            for sent in (*flying.settled, *flying.completed):
                sent.fail(lost(sent, world, error, submitted=True))
        for finished in self._finished:
            for sent in (*finished.settled, *finished.completed):
                sent.fail(lost(sent, world, error, submitted=submitted))
        for sent in (*self._beating, *self._deliveries.open.values()):
            sent.fail(lost(sent, world, error, submitted=submitted))

    def _end(self, error: CelluleError) -> None:
        if self.ended is not None:
            return
        self.ended = error
        self._tell(error, submitted=False)
        self._refuse_waiting(error)
        self._requests.close()
        self._snapshots.abandon(error)
        close_spill(self.world.ledger.spill)

    def _gone(self) -> CelluleError:
        return self.ended or ended_by(self.world.world_id, None)
