"""What `testing.World` answers: `Sent` of an event, `Cell`, `Failure` of a failed step, `Events`.

All of them look into the journal when they are asked, so an answer kept in a variable stays true: an event
that was parked is applied after a resume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from cellule.errors import Parked, Refused
from cellule.host.inbox.sends import check_steps, parked
from cellule.host.ingress.waits import check_condition
from cellule.kernel.items import Stepped
from cellule.kernel.journal.codes import CONFLICT, DELETED, DROPPED, HALTED, OK, PARKED, REFUSED, SKIPPED
from cellule.testing.journal_view import StepRow

if TYPE_CHECKING:
    from cellule.kernel.state.cells import Entry
    from cellule.testing.chronicle import Chronicle

T = TypeVar("T")
S = TypeVar("S")

SentStatus = Literal["applied", "refused", "failed", "dropped", "conflict", "parked", "waiting"]
CellStatus = Literal["absent", "waiting", "queued", "halted", "needs migration", "needs code"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that failed, as the journal has it."""

    reducer: str
    key: Any
    event: Any
    code: str
    text: str
    height: int
    skipped: bool

    def __str__(self) -> str:
        return f"{self.reducer} {self.key!r} on {self.event!r}: {self.text} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: the `event` whose step failed and was skipped, or the `kind` of a failed effect."""

    height: int
    reducer: str
    key: Any
    code: str
    text: str
    event: Any
    kind: str | None


@dataclass(frozen=True, slots=True)
class Version(Generic[S]):
    """One step of a cell's history; `state` is None where the step deleted the cell.

    `event` is None where a person deleted it.
    """

    version: int
    state: S | None
    event: Any
    reply: Any
    ann: Any
    height: int
    at: datetime


class Events(list[Any]):
    """Events in the order they were recorded."""

    def of(self, *kinds: type[T]) -> list[T]:
        """Those of these classes."""
        return [event for event in self if isinstance(event, kinds)]


class Sent:
    """What became of an event: `applied`, `refused`, `failed`, `reply`; `duplicate` if its id was known."""

    def __init__(self, chronicle: Chronicle, height: int, *, duplicate: bool = False) -> None:
        self._chronicle = chronicle
        self.height = height
        self.duplicate = duplicate

    def __repr__(self) -> str:
        shown = f"<{self.status} at height {self.height}: {self.event!r}"
        problems = "; ".join(step.text for step in self._newest() if step.text)
        return f"{shown}: {problems}>" if problems else f"{shown}>"

    @property
    def event(self) -> Any:
        """The event."""
        return self._chronicle.event(self.height)

    @property
    def status(self) -> SentStatus:
        """What became of it, at the worst of its cells."""
        found = {step.status for step in self._newest()}
        if found & {HALTED, SKIPPED}:
            return "failed"
        if CONFLICT in found:
            return "conflict"
        if REFUSED in found:
            return "refused"
        if DROPPED in found:
            return "dropped"
        if PARKED in found:
            return "parked"
        targets = self._chronicle.journal.event(self.height).targets
        return "applied" if len(self._newest()) == len(targets) else "waiting"

    @property
    def applied(self) -> bool:
        """Whether every cell it went to took its step."""
        return self.status == "applied"

    @property
    def failed(self) -> Failure | None:
        """The first failure among its cells."""
        for step in self._newest():
            if step.status in (HALTED, SKIPPED):
                return self._chronicle.failure(step)
        return None

    @property
    def refused(self) -> Refused | None:
        """The first refusal among its cells, with `reason` and `code`."""
        for step in self._newest():
            if step.status == REFUSED:
                return self._chronicle.refusal(step)
        return None

    @property
    def conflict(self) -> bool:
        """Whether the cell was at another version than `expected_version`."""
        return self.status == "conflict"

    @property
    def reply(self) -> Any:
        """The first reply that one of its cells gave, or None."""
        for step in self._newest():
            if step.reply is not None:
                return self._chronicle.reply(step)
        return None

    @property
    def emitted(self) -> Events:
        """The events that its steps emitted; what those led to is in `world.emitted`."""
        heights = {step.height for step in self._newest()}
        return self._chronicle.emitted(heights)

    @property
    def effects(self) -> list[tuple[str, Any]]:
        """The effects that its steps asked for: kind and params, in their order."""
        heights = {step.height for step in self._newest()}
        past = self._chronicle
        return [
            (row.kind, past.params(row.kind, row.params))
            for row in past.journal.intents()
            if row.cause in heights
        ]

    def check(self) -> Sent:
        """Return this if it was applied; otherwise raise what a node's `send` raises."""
        check_steps(self.height, [_stepped(self.height, row) for row in self._newest()])
        if self.status == "waiting":
            for cell in sorted(self._chronicle.journal.event(self.height).targets):
                for reason in self._chronicle.reasons(cell):
                    raise parked(self.height, *cell, str(reason))
            raise Parked("testing.waiting", "{sent} has not been handled by all its cells.", sent=self)
        return self

    def _newest(self) -> list[StepRow]:
        """The newest step of each cell the event went to."""
        return list({step.cell: step for step in self._chronicle.journal.steps_of(self.height)}.values())


def _stepped(height: int, row: StepRow) -> Stepped:
    base, key = row.cell
    told = (row.status, row.version, row.height, row.reply, row.code, row.text, row.born)
    return Stepped(height, base, key, *told)


class Cell(Generic[S]):
    """One cell: `state`, `version`, `status`, `history()`."""

    def __init__(self, chronicle: Chronicle, base: str, key: bytes) -> None:
        self._chronicle = chronicle
        self._base = base
        self._key = key

    def __repr__(self) -> str:
        return f"<{self._chronicle.shown((self._base, self._key))} {self.status} {self.state!r}>"

    @property
    def key(self) -> Any:
        """The key, as it stands in events."""
        return self._chronicle.key(self._base, self._key)

    @property
    def exists(self) -> bool:
        """Whether the cell has a state."""
        entry = self._entry()
        return entry is not None and entry.state is not None

    @property
    def state(self) -> S | None:
        """Its state, or None."""
        entry = self._entry()
        state: S | None = None if entry is None else self._chronicle.state_of(self._base, entry)
        return state

    @property
    def version(self) -> int:
        """How many steps its state has taken; 0 = it does not exist."""
        entry = self._entry()
        return 0 if entry is None else entry.version

    @property
    def etag(self) -> str:
        """This version of this incarnation of it, for `expected_version`."""
        entry = self._entry()
        return "0@0" if entry is None else f"{entry.version}@{entry.born}"

    @property
    def size(self) -> int:
        """How many bytes its state has; 0 = it does not exist."""
        entry = self._entry()
        return 0 if entry is None else entry.size

    @property
    def status(self) -> CellStatus:
        """What it is doing: waiting for an event, or stopped for a reason."""
        entry = self._entry()
        if entry is None:
            return "absent"
        stopped: CellStatus | None = entry.get("status")
        if stopped is not None:
            return stopped
        return "queued" if entry.get("queue") else "waiting"

    @property
    def reason(self) -> str:
        """What it waits for, or why it stopped; empty if it does not exist."""
        reasons = self._chronicle.reasons((self._base, self._key))
        return reasons[0].beside_status if reasons else ""

    @property
    def queue(self) -> Events:
        """The events that wait for it."""
        entry = self._entry()
        waiting: Sequence[Any] = () if entry is None else entry.get("queue", ())
        return Events(self._chronicle.event(message.height) for message in waiting)

    @overload
    def wait_until(self, condition: str, *, timeout: float | None = None) -> S: ...

    @overload
    def wait_until(
        self, condition: Callable[[S | None], object], *, timeout: float | None = None
    ) -> S | None: ...

    def wait_until(
        self, condition: str | Callable[[S | None], object], *, timeout: float | None = None
    ) -> S | None:
        """Let the world's time pass until a condition holds, and return the state; raises `TimedOut`.

        The condition is CEL, as of a node's `cell.wait_until`, or a function of the state. `timeout` is in
        seconds of the world's time.
        """
        past = self._chronicle

        if isinstance(condition, str):
            wanted, matches = condition, past.matching(self._base, condition)

            def holds() -> bool:
                entry = self._entry()
                return entry is not None and matches(self._key, entry)
        else:
            check_condition(condition)
            wanted, asked = "the condition", condition

            def holds() -> bool:
                return bool(asked(self.state))

        past.waits.until(holds, self, wanted, timeout)
        return self.state

    def history(self) -> list[Version[S]]:
        """Every step that changed it, oldest first."""
        past = self._chronicle
        return [
            Version(
                step.version, None if step.state is None else past.state(self._base, step.era, step.state),
                past.cause(step), past.reply(step), past.ann(step), step.height,
                past.time(step.now_ns),
            )
            for step in past.journal.history((self._base, self._key))
            if step.status in (OK, DELETED)
        ]  # fmt: skip

    def _entry(self) -> Entry | None:
        return self._chronicle.entry((self._base, self._key))
