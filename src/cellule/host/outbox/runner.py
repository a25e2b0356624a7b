"""Running attempts: which begin when, as many at once as the adapters allow.

A row that this process wrote is performed at once, for whoever closes it tells the pool; of any other row the
marker and the place are read first. An attempt itself is `attempt_task.py`'s; what becomes of an outcome is
the pool's business, as is the store's contents; an attempt that is cancelled because the pool ends has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Protocol

from cellule.errors import Corrupted, Unavailable
from cellule.host.limits import CLOCK_LOOK_S
from cellule.host.outbox.attempt_task import AttemptTask
from cellule.host.outbox.attempts import Again, Outcome
from cellule.host.outbox.backoff import SECOND_NS
from cellule.host.outbox.kind_queue import Entry, KindQueue
from cellule.host.outbox.limits import MAY_BEGIN_S, STUBBORN_S
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.rows import Stored
from cellule.host.outbox.search import wait_event
from cellule.host.outbox.window import Window
from cellule.host.store_retry import StoreRetry
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.store.sound_scan import sound_read


class Owner(Protocol):
    """Who takes what comes of rows."""

    def finish(self, entry: Entry, outcome: Receipt | Again) -> None:
        """An attempt ended."""

    def progressed(self, entry: Entry, progress: bytes) -> None:
        """A running attempt reported how far it is."""

    def drop(self, entry: Entry) -> None:
        """The intent was settled by its world."""

    def vanished(self, entry: Entry) -> None:
        """The row is not there any more."""

    async def close_unknown(self) -> None:
        """Look after settled intents that are not in memory."""


class Runner:
    """Performs the rows of a window, for their owner."""

    def __init__(
        self, engine: Engine, window: Window, patience: StoreRetry, owner: Owner,
        may_begin: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._engine = engine
        self._window = window
        self._patience = patience
        self._owner = owner
        self._may_begin = may_begin
        self._asked_s = -MAY_BEGIN_S  # when it was asked last, and what it said
        self._allowed = False
        self._work = asyncio.Event()
        self._attempts: dict[AttemptTask, None] = {}  # in order, so that a run can be repeated
        self._context = copy_context()  # as it was before any adapter ran
        self._failure: Exception | None = None
        self._ending = False

    def wake(self) -> None:
        """There may be something to do."""
        self._work.set()

    async def run(self) -> None:
        """Begin attempts until cancelled."""
        while True:
            self._work.clear()
            if self._failure is not None:
                raise self._failure
            await self._owner.close_unknown()
            queues = list(self._window.queues.values())
            taken = [entry for queue in queues for entry in queue.take()]
            if taken:
                await self._start(taken)
                continue
            waits = [queue.wait_ns() for queue in queues]
            wait_ns = min((each for each in waits if each is not None), default=None)
            await wait_event(self._work, CLOCK_LOOK_S if wait_ns is None else wait_ns / SECOND_NS)

    async def end(self, grace_s: float) -> None:
        """Begin nothing more; attempts that run longer than this are cancelled."""
        self._ending = True
        tasks = {attempt.task for attempt in self._attempts}
        if tasks and grace_s > 0:
            _, tasks = await asyncio.wait(tasks, timeout=grace_s)
        for attempt in list(self._attempts):
            attempt.stop("ending")
        if tasks:
            await asyncio.wait(tasks, timeout=STUBBORN_S)
        if self._failure is not None:
            raise self._failure

    async def look_up(self, intents: list[bytes]) -> tuple[list[bytes | None], list[bytes | None]]:
        """The markers of intents, and where their rows are; a damaged marker is one, a damaged place none."""
        marks, places = [*map(keys.effect_cancel, intents)], [*map(keys.effect_at, intents)]
        held, damaged = await self.read([*marks, *places])
        markers = [b"" if mark in damaged else value for mark, value in zip(marks, held, strict=False)]
        return markers, held[len(intents) :]

    async def read(self, wanted: list[bytes]) -> tuple[list[bytes | None], dict[bytes, Corrupted]]:
        """What the store holds, around damaged rows."""
        return await self._patience.call(lambda: sound_read(self._engine, wanted))

    async def _start(self, taken: Sequence[Entry]) -> None:
        """Begin attempts, but for rows that are elsewhere by now."""
        unsure: list[Entry] = []
        for entry in taken:
            if entry.known:
                self._begin(entry)
            else:
                unsure.append(entry)
        if not unsure:
            return
        markers, places = await self.look_up([entry.stored.row.intent for entry in unsure])
        for entry, marker, at in zip(unsure, markers, places, strict=True):
            if marker is not None:
                entry.closed = True
            if entry.closed or at == entry.stored.at or await self._is_there(entry.stored):
                self._begin(entry)
            else:
                entry.queue.release(entry)
                self._owner.vanished(entry)

    async def _is_there(self, stored: Stored) -> bool:
        """The row itself decides, if what points to it does not agree."""
        [value], _ = await self.read([stored.at])
        return value == stored.value

    # For attempts

    def _begin(self, entry: Entry) -> None:
        attempt = AttemptTask(entry, self, asyncio.get_running_loop(), self._context.copy())
        self._attempts[attempt] = None

    def may_begin(self) -> bool:
        """See `attempt_task.Starter`: what does not begin stays for the pool of the next owner."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._asked_s + MAY_BEGIN_S:
            self._asked_s, self._allowed = now_s, self._may_begin()
        return self._allowed and not self._ending

    def ended(self, attempt: AttemptTask, outcome: Outcome | None) -> None:
        """See `attempt_task.Starter`."""
        entry = attempt.entry
        self._release(attempt)
        try:
            if entry.closed:
                self._owner.drop(entry)
            elif outcome is not None:
                self._owner.finish(entry, outcome)
            if not self._ending:
                self._go_on(entry.queue)
        except Exception as error:  # noqa: BLE001 - raised by `run`
            self._fail(error)

    def progressed(self, attempt: AttemptTask, progress: bytes) -> None:
        """See `attempt_task.Starter`."""
        if not attempt.entry.closed:
            self._owner.progressed(attempt.entry, progress)

    def _go_on(self, queue: KindQueue) -> None:
        """Begin another attempt in the place of one that ended, if that needs no look at the store."""
        entry = queue.next(known=True)
        if entry is None:
            self._work.set()
        else:
            self._begin(entry)

    def failed(self, attempt: AttemptTask, error: Exception) -> None:
        """See `attempt_task.Starter`: a store that is gone while the pool ends leaves the row as it is."""
        self._release(attempt)
        if not (isinstance(error, Unavailable) and self._patience.is_ending):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._work.set()

    def _release(self, attempt: AttemptTask) -> None:
        del self._attempts[attempt]
        attempt.entry.attempt = None
        attempt.entry.queue.release(attempt.entry)
