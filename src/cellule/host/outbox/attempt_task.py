"""One attempt at work: a task and a copy of the context of its own, a place in its queue that it gives back.

What an adapter does to its task or its context ends with its attempt. The first step runs without a timer,
and most quick adapters have no other; one that waits is ended when its time is over, when its intent is
closed, or when the pool ends. One that goes on after it was cancelled is left behind: its place is given
back, and whatever it does later counts no more.

Rejected: several attempts in one task, one after the other. Each would get the cancellations and context
variables of those before it. It saved 2 us of 50.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context
from typing import Any, Literal, Protocol

from cellule.effects.child_tasks import begin_attempt
from cellule.host.outbox.attempts import Again, Outcome, Waiting
from cellule.host.outbox.kind_queue import RUNNING, Entry
from cellule.host.outbox.limits import PROGRESS_SAVE_S, STUBBORN_S
from cellule.host.outbox.receipts import Receipt
from cellule.host.outbox.rows import Row
from cellule.loop_end import leave
from cellule.values.link import Link
from cellule.values.sealed_value import is_sealed

Reason = Literal["expired", "silent", "closed", "ending"]


class Starter(Protocol):
    """Who begins attempts, and hears of their ends."""

    def may_begin(self) -> bool:
        """Tell whether an attempt may begin now."""

    def ended(self, attempt: AttemptTask, outcome: Outcome | None) -> None:
        """An attempt ended; None where nothing came of it."""

    def progressed(self, attempt: AttemptTask, progress: bytes) -> None:
        """What an attempt reported should outlive this process."""

    def failed(self, attempt: AttemptTask, error: Exception) -> None:
        """An attempt could not be brought to its end, and no adapter is to blame."""


class AttemptTask:
    """One attempt, from its first step to its outcome; `ended` is heard once."""

    __slots__ = (
        "_is_over", "_progress", "_reason", "_saver", "_silence", "_starter", "_timer", "entry", "task",
    )  # fmt: skip

    def __init__(
        self, entry: Entry, starter: Starter, loop: asyncio.AbstractEventLoop, context: Context
    ) -> None:
        self.entry = entry
        self._starter = starter
        self._timer: asyncio.TimerHandle | None = None
        self._reason: Reason | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._progress: bytes | None = None
        self._saver: asyncio.TimerHandle | None = None
        self._is_over = False
        self.task = loop.create_task(self._run(), context=context)

    def stop(self, reason: Reason) -> None:
        """Cancel what the adapter does; where it does not end by that, go on without it."""
        if self._reason is not None or self._is_over:
            return
        self._reason = reason
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.task.get_loop().call_later(STUBBORN_S, self._leave)
        self.task.cancel()

    async def _run(self) -> None:
        try:
            outcome = self._begin()
            if type(outcome) is not Receipt and outcome is not None:
                outcome = await self._rest(outcome)
        except asyncio.CancelledError as error:  # while the store was waited for
            outcome = self._cancelled(error)
        except Exception as error:  # noqa: BLE001 - told to whoever runs the pool
            self._fail(error)
            return
        self._end(outcome)

    def _begin(self) -> Outcome | Awaitable[Receipt] | Waiting | Link | bytes | None:
        """Make the first step; params that are elsewhere, or sealed, have to be fetched before."""
        entry = self.entry
        if entry.closed or not self._starter.may_begin():
            return None
        entry.state, entry.attempt = RUNNING, self
        begin_attempt()
        row = entry.stored.row
        if type(row.grant) is Link or type(row.params) is Link or is_sealed(row.params):  # type: ignore[arg-type]
            return row.params
        return entry.queue.performer.perform(row, self._on_progress)

    async def _rest(self, outcome: Outcome | Awaitable[Receipt] | Waiting | Link | bytes) -> Outcome | None:
        row, performer = self.entry.stored.row, self.entry.queue.performer
        left: Outcome | Awaitable[Receipt] | Waiting | None
        if isinstance(outcome, Link | bytes):
            fetched = await performer.fetched(row, outcome)
            if isinstance(fetched, Receipt):
                return fetched
            row = fetched
            left = performer.perform(row, self._on_progress)
        else:
            left = outcome
        if isinstance(left, Waiting):
            if self.entry.closed:  # by its own first step
                self.stop("closed")
            left = await self._wait(row, left)
        return left if left is None or isinstance(left, Receipt | Again) else await left

    async def _wait(self, row: Row, waiting: Waiting) -> Outcome | Awaitable[Receipt] | None:
        """Wait for the rest of an attempt; its time began with its first step."""
        performer = self.entry.queue.performer
        if self._timer is None:
            self._timer = self.task.get_loop().call_at(waiting.until_s, self.stop, "expired")
        self._listen()
        try:
            value: Any = await waiting.work
        except asyncio.CancelledError as error:
            return self._cancelled(error)
        except BaseException as error:  # noqa: BLE001 - whatever an adapter raises ends its attempt only
            if self._is_over:  # left behind; it may be a garbage collection that ends it
                return None
            return performer.raised(row, error, timed_out=self._reason in ("expired", "silent"))
        finally:
            self._quiet()
        return performer.returned(row, value)

    def _cancelled(self, error: BaseException) -> Outcome | None:
        """What it means that the adapter was cancelled."""
        performer, row = self.entry.queue.performer, self.entry.stored.row
        if self._reason is None:
            return performer.cancelled_itself(row, error)
        if self._reason == "silent":
            return performer.silent()
        return performer.timed_out(row, said=error) if self._reason == "expired" else None

    def _on_progress(self, progress: bytes) -> None:
        if not self._is_over:
            self._progress = progress
            if self._saver is None:
                self._saver = self.task.get_loop().call_later(PROGRESS_SAVE_S, self._save)
            if self._silence is not None and self._reason is None:
                self._listen()

    def _save(self) -> None:
        """Let the last report be kept, also if nothing else comes of this attempt."""
        if self._saver is not None and self._progress is not None:
            self._saver.cancel()
            self._saver = None
            self._starter.progressed(self, self._progress)

    def _listen(self) -> None:
        """Wait for the next report of progress, if the adapter promises any."""
        limit_s = self.entry.queue.limits.progress_s
        if self._silence is not None:
            self._silence.cancel()
        if limit_s is not None and self._reason is None:
            self._silence = self.task.get_loop().call_later(limit_s, self.stop, "silent")

    def _quiet(self) -> None:
        for timer in (self._timer, self._silence):
            if timer is not None:
                timer.cancel()

    def _leave(self) -> None:
        """The adapter was cancelled, and goes on."""
        performer, row = self.entry.queue.performer, self.entry.stored.row
        is_late = self._reason in ("expired", "silent")
        self._end(performer.timed_out(row, left=True) if is_late else None)
        leave(self.task)

    def _end(self, outcome: Outcome | None) -> None:
        if not self._is_over:
            self._is_over = True
            if self._timer is not None or self._silence is not None:
                self._quiet()
            if outcome is None:  # cut off
                self._save()
            elif self._saver is not None:
                self._saver.cancel()
            if self._progress is not None and isinstance(outcome, Again):
                outcome = outcome._replace(progress=self._progress)
            self._starter.ended(self, outcome)

    def _fail(self, error: Exception) -> None:
        if not self._is_over:
            self._is_over = True
            if self._saver is not None:
                self._saver.cancel()
            self._starter.failed(self, error)
