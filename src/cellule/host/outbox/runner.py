"""Running attempts: which begin when, one after the other in as many tasks as the adapters allow.

A row that this process wrote is performed at once, for whoever closes it tells the pool; of any other row the
marker and the place are read first. What becomes of an outcome is the pool's business, as is the store's
contents; an attempt that is cancelled because the pool ends has no outcome.

Rejected: a task for each attempt. Quick adapters would spend more on tasks than on their work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from cellule.errors import Unavailable
from cellule.host.limits import CLOCK_LOOK_S
from cellule.host.outbox.attempts import Again, Outcome
from cellule.host.outbox.backoff import SECOND_NS
from cellule.host.outbox.kind_queue import RUNNING, Entry
from cellule.host.outbox.limits import QUICK_MAX
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.rows import Stored
from cellule.host.outbox.search import wait_event
from cellule.host.outbox.window import Window
from cellule.host.store_retry import StoreRetry
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.engine import Engine


class Owner(Protocol):
    """Who takes what comes of rows."""

    def finish(self, entry: Entry, outcome: Receipt | Again) -> None:
        """An attempt ended."""

    def drop(self, entry: Entry) -> None:
        """The intent was settled by its world."""

    def vanished(self, entry: Entry) -> None:
        """The row is not there any more."""

    async def close_unknown(self) -> None:
        """Look after settled intents that are not in memory."""


class Runner:
    """Performs the rows of a window, for their owner."""

    def __init__(
        self, engine: Engine, clock: Clock, window: Window, patience: StoreRetry, owner: Owner,
        may_begin: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._engine = engine
        self._clock = clock
        self._window = window
        self._patience = patience
        self._owner = owner
        self._may_begin = may_begin
        self._work = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False

    def wake(self) -> None:
        """There may be something to do."""
        self._work.set()

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Begin attempts, in tasks of the group, until cancelled."""
        while True:
            self._work.clear()
            await self._owner.close_unknown()
            now_ns, monotonic_ns = self._clock.now_ns(), self._clock.monotonic_ns()
            lanes = list(self._window.lanes.values())
            taken = [entry for lane in lanes for entry in lane.take(now_ns, monotonic_ns)]
            if taken:
                await self._start(taken, tasks)
                continue
            waits = [lane.wait_ns(now_ns, monotonic_ns) for lane in lanes]
            wait_ns = min((each for each in waits if each is not None), default=None)
            await wait_event(self._work, CLOCK_LOOK_S if wait_ns is None else wait_ns / SECOND_NS)

    async def end(self, grace_s: float) -> None:
        """Begin nothing more; attempts that run longer than this are cancelled."""
        self._ending = True
        if self._tasks and grace_s > 0:
            await asyncio.wait(list(self._tasks), timeout=grace_s)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def look_up(self, intents: list[bytes]) -> tuple[list[bytes | None], list[bytes | None]]:
        """The markers of intents, and where their rows are."""
        wanted = [*map(keys.effect_cancel, intents), *map(keys.effect_at, intents)]
        held = await self._patience.call(lambda: self._engine.read(wanted))
        return held[: len(intents)], held[len(intents) :]

    async def _start(self, taken: Sequence[Entry], tasks: asyncio.TaskGroup) -> None:
        """Begin attempts, but for rows that are elsewhere by now."""
        unsure: list[Entry] = []
        for entry in taken:
            if entry.known:
                self._begin(entry, tasks)
            else:
                unsure.append(entry)
        if not unsure:
            return
        markers, places = await self.look_up([entry.stored.row.intent for entry in unsure])
        for entry, marker, at in zip(unsure, markers, places, strict=True):
            if marker is not None:
                entry.closed = True
            if entry.closed or at == entry.stored.at or await self._is_there(entry.stored):
                self._begin(entry, tasks)
            else:
                entry.lane.active -= 1
                self._owner.vanished(entry)

    async def _is_there(self, stored: Stored) -> bool:
        """The row itself decides, if what points to it does not agree."""
        [value] = await self._patience.call(lambda: self._engine.read([stored.at]))
        return value == stored.value

    def _begin(self, entry: Entry, tasks: asyncio.TaskGroup) -> None:
        task = tasks.create_task(self._perform(entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, first: Entry) -> None:
        """Make one attempt after the other, as long as there are rows that need no look first."""
        entry: Entry | None = first
        lane = first.lane
        quick = 0
        while entry is not None:
            rest = self._attempt(entry)
            if rest is not None:
                await self._await(entry, rest)
                quick = 0
            lane.active -= 1
            if self._ending:
                return
            entry = lane.next(self._clock.now_ns(), self._clock.monotonic_ns(), known=True)
            quick += 1
            if entry is not None and quick >= QUICK_MAX:
                await asyncio.sleep(0)  # an adapter that never waits must not keep everyone else waiting
                quick = 0
        self._work.set()

    def _attempt(self, entry: Entry) -> Awaitable[Outcome] | None:
        """Begin an attempt; returns what is left of it where it waits for something."""
        if not self._may_begin():
            return None  # the row stays for the pool of the next owner
        if not entry.closed:
            entry.state = RUNNING
            outcome = entry.lane.performer.perform(entry.stored.row)
            if not isinstance(outcome, Receipt | Again):
                return outcome
            if not entry.closed:
                self._owner.finish(entry, outcome)
                return None
        self._owner.drop(entry)
        return None

    async def _await(self, entry: Entry, rest: Awaitable[Outcome]) -> None:
        """Wait for what is left of an attempt, unless its intent is closed."""
        outcome: Outcome | None = None
        entry.task = asyncio.current_task()
        if entry.closed and entry.task is not None:  # it was closed by its own first step
            entry.task.cancel()
        try:
            outcome = await rest
        except asyncio.CancelledError:
            if not _was_closed(entry):
                raise
        except Unavailable:
            if not self._patience.is_ending:
                raise
        finally:
            entry.task = None
        if entry.closed:
            self._owner.drop(entry)
        elif outcome is not None:
            self._owner.finish(entry, outcome)


def _was_closed(entry: Entry) -> bool:
    """Tell whether an attempt was cancelled because its intent is closed, and take that cancellation back."""
    task = asyncio.current_task()
    return entry.closed and task is not None and task.uncancel() == 0
