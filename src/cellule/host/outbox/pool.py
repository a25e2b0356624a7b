"""The pool: performs what stands in the outbox, as its adapters allow, and writes what came of it.

Rows come by `offer`, once the frame that wrote them is durable, and by searching the store, so nothing
depends on this process having been there. An intent is performed at least once, always with the same key, and
leaves one receipt. A row moves to its next time in the batch that notes the failure, so pauses survive a
crash; attempts that a crash or a close cuts off do not count, but the progress they reported is kept. A kind
without adapter waits, and is listed.

Rejected: counting an attempt before it begins. It would double the writes, to bound what only an adapter that
kills its process can do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from cellule.effects.adapter import Adapter, Adapters
from cellule.effects.child_tasks import contained_tasks
from cellule.effects.secrets import Secrets
from cellule.errors import CelluleError, Corrupted, Fenced
from cellule.host.believed_clock import BelievedClock
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.limits import STALL_S
from cellule.host.outbox.adapter_end import close_adapter
from cellule.host.outbox.attempts import Again, Performer, Surroundings
from cellule.host.outbox.backoff import SECOND_NS
from cellule.host.outbox.kind_queue import SETTLING, WAITING, Entry, KindQueue
from cellule.host.outbox.limits import CLOSE_MAX, GRACE_S, SCAN_S
from cellule.host.outbox.next_try import log_failure, next_try
from cellule.host.outbox.notes import Notes
from cellule.host.outbox.receipts import Receipt, inbox_item, sealed_receipt
from cellule.host.outbox.rows import Stored, read_row, store_row
from cellule.host.outbox.runner import Runner
from cellule.host.outbox.saved_progress import is_after_save, progress_change, saved
from cellule.host.outbox.search import Searcher
from cellule.host.outbox.settlement import Arrived, Change, Settler
from cellule.host.outbox.signatures import NodeKey
from cellule.host.outbox.window import Window
from cellule.host.store_retry import StoreRetry
from cellule.sources import Clock, Entropy
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.values.link import Link


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """What can be chosen about a pool."""

    grace_s: float = GRACE_S  # how long a close waits for running attempts
    search_s: float = SCAN_S  # how often the store is searched
    stall_s: float = STALL_S  # how long a failing store is waited for by a pool that ends


class Pool:
    """The adapters of one node at work.

    `cas_of` gives the objects of a universe; `arrived` hears of receipts the moment they are durable. No
    attempt begins when `may_begin` says no; the pool is about to end then.
    """

    def __init__(
        self, engine: Engine, adapters: Adapters, key: NodeKey, cas_of: Callable[[UUID], Cas], clock: Clock,
        entropy: Entropy, *, secrets: Secrets | None = None, arrived: Arrived | None = None,
        options: PoolOptions | None = None, may_begin: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._key = key
        self._clock = BelievedClock(clock, clock.now_ns())
        self._entropy = entropy
        self._options = options or PoolOptions()
        self._patience = StoreRetry(clock, self._options.stall_s, lambda _error: None)
        self._window = Window(self.search)
        self._notes = Notes(self._window.entries)
        self._around = Surroundings(
            cas_of, secrets or Secrets(), self._notes.add, self._patience, partial(ErasureKeys, engine)
        )  # fmt: skip
        self._settler = Settler(engine, entropy, self._patience, self._on_settled, arrived, cas_of)
        self._closing: dict[bytes, None] = {}  # settled by their worlds, and not in memory
        self._tasks: asyncio.TaskGroup | None = None
        self._rested = asyncio.Event()
        self._runner = Runner(engine, self._window, self._patience, self, may_begin)
        self._searcher = Searcher(
            engine, clock, self._window, self._options.search_s, self._found, self.closed
        )
        for adapter in adapters.values():
            self.add(adapter)

    # For the host

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Pool]:
        """Work until the block ends; then running attempts have `grace_s`, and what finished is written.

        Attempts that are cut off leave no receipt: the next pool makes them again, with the same key. When
        the block is cancelled or fenced there is no grace. At the end the adapters are closed.
        """
        failure: BaseException | None = None
        async with contained_tasks():
            try:
                async with asyncio.TaskGroup() as tasks:
                    self._tasks = tasks
                    loops = [tasks.create_task(self._runner.run()), tasks.create_task(self._searcher.run())]
                    try:
                        yield self
                    except BaseException as error:  # noqa: BLE001 - raised again behind the group
                        failure = error
                    # Nothing new begins from here on; what is under way has its grace.
                    for loop in loops:
                        loop.cancel()
                    await self._wind_down(graceful=not isinstance(failure, asyncio.CancelledError | Fenced))
            except BaseExceptionGroup as group:
                raise group.exceptions[0] from failure
            finally:
                self._tasks = None
                self._notes.end_all()
                for queue in self._window.queues.values():
                    await close_adapter(queue.performer.adapter, queue.performer.kind)
        if failure is not None:
            raise failure

    def offer(self, stored: Iterable[Stored]) -> None:
        """Perform rows whose frame is durable.

        Whoever offers rows also tells when they are closed, so their markers are not looked for.
        """
        for each in stored:
            self._window.take_in(each, known=True)
        self._runner.wake()

    def closed(self, intents: Iterable[bytes]) -> None:
        """These were settled by their world, and their markers are durable: stop, and remove what is left."""
        for intent in intents:
            entry = self._window.entries.get(intent)
            if entry is None:
                self._closing[intent] = None
            elif not entry.closed:
                entry.closed = True
                self._stop(entry)
        self._runner.wake()

    def add(self, adapter: Adapter) -> None:
        """Perform another kind from now on; what has waited for it is looked for."""
        performer = Performer(adapter, self._around)
        self._window.queues[performer.kind] = KindQueue(performer, self._clock)
        self.search()

    def search(self) -> None:
        """Look at the whole outbox soon."""
        self._searcher.ask()

    async def notes(self, intent: bytes) -> AsyncIterator[object]:
        """The progress notes of an open intent, the newest kept ones first, until it is settled."""
        if intent not in self._window.entries:
            [at] = await self._engine.read([keys.effect_at(intent)])
            if at is None:
                return
        async for note in self._notes.follow(intent):
            yield note

    def state(self, intent: bytes) -> str | None:
        """What is being done about an intent here; None if it is not in memory."""
        entry = self._window.entries.get(intent)
        return None if entry is None else entry.state

    def has_adapter(self, kind: str) -> bool:
        """Tell whether this node performs a kind."""
        return kind in self._window.queues

    @property
    def missing(self) -> dict[str, int]:
        """Kinds without adapter, and how many of their rows were seen since the last search began."""
        return dict(self._window.missing)

    @property
    def unreadable(self) -> list[bytes]:
        """Keys of rows that cannot be read; `repair` removes them."""
        return list(self._searcher.unreadable)

    @property
    def trouble(self) -> CelluleError | None:
        """What keeps the pool from its rows at the moment."""
        return self._patience.trouble or self._searcher.trouble

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is in memory: no row is running, waiting or being written."""
        return not (self._window.entries or self._closing)

    async def wait_idle(self) -> None:
        """Wait until nothing is in memory; rows that only the store has are not waited for."""
        while not self.is_idle:
            self._rested.clear()
            await self._rested.wait()

    # Writing what came of it

    def _found(self, stored: Iterable[Stored]) -> None:
        for each in stored:
            self._window.take_in(each, known=False)
        self._runner.wake()

    def finish(self, entry: Entry, outcome: Receipt | Again) -> None:
        """See `running.Owner`."""
        if is_after_save(entry, lambda: self.finish(entry, outcome)):
            return
        row = entry.stored.row
        if isinstance(outcome, Again):
            moved = next_try(row, entry.queue.limits, outcome, self._clock.now_ns(), self._entropy)
            if moved is not None:
                pause_s = max(0, moved.ready_ns - self._clock.now_ns()) / SECOND_NS
                log_failure(row, outcome, pause_s)
                self._settle(Change(row.intent, entry.stored, entry, moved=store_row(moved)))
                return
            log_failure(row, outcome, None)
            outcome = entry.queue.performer.gave_up(row, outcome)
        item = sealed_receipt(self._key, row.universe, row.world, outcome)
        receipt = (
            None if isinstance(outcome.value, Link) else inbox_item(outcome, self._key.id, outcome.value)
        )
        self._settle(Change(row.intent, entry.stored, entry, item=item, receipt=receipt))

    def progressed(self, entry: Entry, progress: bytes) -> None:
        """See `running.Owner`."""
        if is_after_save(entry, lambda: self.progressed(entry, progress)):
            return
        change = progress_change(entry, progress)
        if change is not None and self._tasks is not None:
            entry.saving = True
            self._settler.put(change, self._tasks)

    def _stop(self, entry: Entry) -> None:
        """End what is done about a settled intent; one that is being written is looked after when it is."""
        if entry.state is WAITING:
            entry.queue.withdraw(entry)
            self.drop(entry)
        elif entry.attempt is not None:
            entry.attempt.stop("closed")

    def drop(self, entry: Entry) -> None:
        """See `running.Owner`."""
        if is_after_save(entry, lambda: self.drop(entry)):
            return
        self._settle(Change(entry.stored.row.intent, entry.stored, entry, unmark=True))

    def _settle(self, change: Change) -> None:
        if change.entry is not None:
            change.entry.state = SETTLING
        if self._tasks is not None:
            self._settler.put(change, self._tasks)

    def _on_settled(self, change: Change, written: bool) -> None:
        entry = change.entry
        if entry is None:
            return
        if entry.saving:
            saved(entry, change.moved if written else None, self._window)
            return
        if change.moved is not None and written:
            self._window.keep(entry, change.moved, self._searcher.until_ns)
            if entry.closed:
                self._stop(entry)
            self._runner.wake()
            return
        self._notes.end(change.intent)
        self._window.forget(entry)
        if entry.closed and not change.unmark:
            self._settle(Change(change.intent, None, unmark=True))
        self._rested.set()

    def vanished(self, entry: Entry) -> None:
        """See `running.Owner`."""
        self._notes.end(entry.stored.row.intent)
        self._window.forget(entry)
        self._rested.set()

    async def close_unknown(self) -> None:
        """Remove the rows and markers of settled intents that are not in memory."""
        if not self._closing:
            return
        intents = list(self._closing)[:CLOSE_MAX]
        markers, places = await self._runner.look_up(intents)
        there = [at for at in places if at is not None]
        held, _ = await self._runner.read(there)
        values = dict(zip(there, held, strict=True))
        for intent, marker, at in zip(intents, markers, places, strict=True):
            del self._closing[intent]
            if intent in self._window.entries:
                self.closed([intent])
                continue
            stored = self._readable(at, values[at]) if at is not None else None
            if marker is not None or stored is not None:
                self._settle(Change(intent, stored, unmark=True))
        self._rested.set()

    def _readable(self, at: bytes, value: bytes | None) -> Stored | None:
        if value is None:
            return None
        try:
            return read_row(at, value)
        except Corrupted:
            self._searcher.unreadable[at] = None
            return None

    # The end

    async def _wind_down(self, *, graceful: bool) -> None:
        await self._runner.end(self._options.grace_s if graceful else 0)
        self._patience.is_ending = True
        try:
            async with asyncio.timeout(None if graceful else self._options.stall_s):
                await self._settler.wait_idle()
        except TimeoutError:
            return
