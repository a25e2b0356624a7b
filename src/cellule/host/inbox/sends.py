"""What becomes of one event: the handle a sender holds, and the errors it may get.

A `Sent` is filled in by the hosted world: refused, a duplicate, admitted at a height, stepped by its cells,
and durable. It makes a future only when somebody waits. `applied` means that every direct delivery has a
committed step; an event that cannot run now (a stopped cell, a paused world) is kept, which `Parked` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Literal

from cellule.errors import (
    CelluleError,
    InvariantBroken,
    OutcomeUnknown,
    Parked,
    Refused,
    StepFailed,
    Unavailable,
    VersionConflict,
    readable,
)
from cellule.kernel.items import BatchResult, Stepped, StepRow
from cellule.kernel.journal.codes import CONFLICT, DELETED, DROPPED, HALTED, PARKED, REFUSED, SKIPPED
from cellule.kernel.state.cells import Slot

Wait = Literal["durable", "applied", "reply"]


class Sent:
    """The handle of one event on its way.

    `height` is where it stands in the journal, `steps` what its cells made of it, `duplicate` that its id was
    there before, `error` why it is not there or not known to be, `parked` which cell keeps it and why.
    """

    __slots__ = (
        "batch",
        "duplicate",
        "durable",
        "error",
        "finished",
        "height",
        "item",
        "left",
        "parked",
        "rows",
        "slots",
        "waiters",
    )  # fmt: skip

    def __init__(self, item: Any) -> None:
        self.item = item
        self.height = 0
        self.left = -1  # deliveries without a step; -1 = not admitted yet
        self.slots: Any = ()
        self.error: CelluleError | None = None
        self.duplicate = False
        self.parked: tuple[str, bytes, str] | None = None
        self.durable = False
        self.finished = False  # every delivery has a durable step, or never will have one soon
        self.rows: tuple[StepRow, ...] = ()  # of `steps`, which are made only for those who look
        self.batch: BatchResult | None = None  # which tells the one step of a plain event
        self.waiters: list[asyncio.Future[None]] | None = None

    @property
    def steps(self) -> tuple[Stepped, ...]:
        """What the event's cells made of it, so far."""
        rows = self.rows if self.batch is None else (self.batch.step(self.height),)
        return tuple(map(Stepped._make, rows))

    @property
    def complete(self) -> bool:
        """Tell whether nothing more is to come, apart from durability."""
        return self.left == 0 or self.error is not None or self.parked is not None

    async def wait(self, wait: Wait = "applied") -> Sent:
        """Wait for the outcome and return this handle, or raise what went wrong."""
        while not (self.finished or (wait == "durable" and self.durable)):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self.waiters is None:
                self.waiters = [future]
            else:
                self.waiters.append(future)
            await future
        if self.error is not None and not (wait == "durable" and self.durable):
            raise self.error
        if wait != "durable":
            for row in self.rows:
                if row[3] > DELETED:
                    check_steps(self.height, self.steps)
            if self.parked is not None:
                raise parked(self.height, *self.parked)
        return self

    def wake(self) -> None:
        """Let those who wait look again."""
        if self.waiters is not None:
            for future in self.waiters:
                if not future.done():
                    future.set_result(None)
            self.waiters = None

    def fail(self, error: CelluleError) -> None:
        """End with an error, unless it has ended."""
        if not self.finished:
            self.error = error
            self.finished = True
            self.wake()

    def stopped_slot(self) -> Slot | None:
        """The first cell of this event that cannot run now."""
        for slot in self.slots:
            if slot.stopped:
                found: Slot = slot
                return found
        return None


def release_batch(batch: BatchResult, sents: list[Sent]) -> None:
    """Plain events of a beat that is durable now: each has its step."""
    for height, sent in zip(batch.heights, sents, strict=True):
        sent.height, sent.left, sent.batch = height, 0, batch
        sent.durable = sent.finished = True
        if sent.waiters is not None:
            sent.wake()


_AFTER = {
    HALTED: "The cell keeps the event and waits: fix the code and resume the cell, or drop the event.",
    SKIPPED: "The event is a dead letter: redrive or dismiss it.",
}


def check_steps(height: int, steps: Iterable[Stepped]) -> None:
    """Raise what the steps of the event at `height` say: a refusal, failure, conflict or parked message."""
    for step in steps:
        if step.status <= DELETED:
            continue
        if step.status == CONFLICT:
            raise VersionConflict(
                step.code, "cell {module}/{key}: {text}", module=step.module, key=readable(step.key),
                text=step.text, version=step.version, height=step.height,
                hint="Read the cell again and decide anew.",
            )  # fmt: skip
        if step.status == REFUSED:
            cell = f"{step.module}/{readable(step.key)}" if step.key else step.module
            raise Refused(step.text, code=step.code, cell=cell, height=step.height)
        if step.status == DROPPED:
            raise StepFailed(
                step.code, "the event at height {cause} never reached {module}/{key}: it was {text}",
                cause=height, module=step.module, key=readable(step.key), height=step.height, text=step.text,
                hint="Send it again with another id if it should happen after all.",
            )  # fmt: skip
        if step.status in (HALTED, SKIPPED):
            raise StepFailed(
                step.code, "the step of {module}/{key} at height {height} failed: {text}",
                module=step.module, key=readable(step.key), height=step.height, text=step.text,
                hint=_AFTER[step.status],
            )  # fmt: skip
        if step.status == PARKED:
            raise parked(height, step.module, step.key, step.text)


def parked(height: int, module: str, key: bytes, reason: str) -> Parked:
    """The error of an event that is kept until its cell can run."""
    return Parked(
        "host.parked", "the event at height {height} is kept and waits at {module}/{key}: {reason}.",
        height=height, module=module, key=readable(key), reason=reason,
        hint="Do not send it again; wait_applied(id) waits for it.",
    )  # fmt: skip


def lost(sent: Sent, world: object, why: BaseException, *, submitted: bool) -> CelluleError:
    """What a sender is told when its world ends, or the store fails, before the outcome is durable."""
    if sent.durable:
        return Parked(
            "host.interrupted",
            "the event at height {height} is kept, but world {world} stopped before it was applied: {why}",
            height=sent.height, world=world, why=why,
            hint="Do not send it again; wait_applied(id) waits for it.",
        )  # fmt: skip
    if submitted:
        return OutcomeUnknown(
            "host.outcome_unknown", "it is not known whether world {world} kept the event: {why}",
            world=world, why=why, hint="Send it again with the same id.",
        )  # fmt: skip
    return Unavailable(
        "host.not_accepted", "world {world} did not take the event: {why}", world=world, why=why,
        hint="Nothing was changed: send it again.",
    )  # fmt: skip


def ended_by(world: object, failure: BaseException | None) -> CelluleError:
    """Why a world is no longer here, in our own words."""
    if isinstance(failure, CelluleError):
        return failure
    if isinstance(failure, Exception):
        broken = InvariantBroken(
            "host.world_failed", "world {world} stopped by an error of Cellule itself: {why!r}",
            world=world, why=failure,
        )  # fmt: skip
        broken.__cause__ = failure
        return broken
    return Unavailable(
        "host.world_closed", "world {world} is not open here", world=world, hint="Open it again."
    )
