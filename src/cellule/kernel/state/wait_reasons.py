"""Why a cell waits: every cell that exists has a named reason, told in words.

    an event             it has taken all its messages; the next event makes it step
    its turn             it has messages and runs in the next beat
    the world is paused  it has messages, and no step runs until the world is resumed
    over budget          its module has as many open intents as it may; receipts let it go on
    its map moves        the map of its module becomes cells; they run when all entries have moved
    halted               a step failed; `cell resume` lets it run again
    needs code           its program could not be loaded; `cell resume` tries again
    needs migration      its era does not take a message; `cell migrate` moves it

and, of a cell with open intents and no messages, one reason for each of them:

    receipt              an adapter has it, or another intent with its idempotency key stands for it
    timer                it fires by itself
    approval             somebody has to approve or deny it

A cell with messages that is neither stopped nor in its turn in a world that is not paused would wait for
ever without anybody knowing, and so would one whose intent, timer or first intent is not there. There must
be none.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.need import Need
from cellule.kernel.state import rows
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import OpenIntent, TimerRow
from cellule.values.schema.text_forms import time_text

PAGE = 1_000
REASONS_MAX = 10  # of one cell

EVENT = "an event"
TURN = "its turn"
PAUSED = "the world is paused"
OVER_BUDGET = "over budget"
MOVING = "its map moves"
TIMER = "timer"
APPROVAL = "approval"
RECEIPT = "receipt"


@dataclass(frozen=True, slots=True)
class Reason:
    """What a cell waits for; its text is what people read everywhere.

    `since` is the height of the step that stopped it, or of its intent's record; 0 where there is none.
    `kind`, `time_ns` (when a timer is due, or since when the intent waits), `rule` and `denied_ns` (when an
    approval comes too late) are those of an intent.
    """

    what: str
    since: int = 0
    code: str = ""
    text: str = ""
    kind: str = ""
    time_ns: int = 0
    rule: str = ""
    denied_ns: int = 0

    @property
    def words(self) -> str:
        """The reason without the kind of effect it is about."""
        words = self.what
        if self.kind:
            words += f" {'at' if self.what == TIMER else 'since'} {_moment(self.time_ns)}"
        words += f" by rule {self.rule}" if self.rule else ""
        words += f": {self.text}" if self.text else ""
        return words + (f"; denied at {_moment(self.denied_ns)}" if self.denied_ns else "")

    @property
    def beside_status(self) -> str:
        """The reason for readers who see the cell's status beside it."""
        return self.text if self.code else str(self)

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.kind else self.words


def reason_of(
    entry: Entry, *, is_ready: bool, paused: bool, is_held: bool, is_moving: bool = False
) -> Reason | None:
    """What a cell waits for, its open intents aside; None where only those could tell.

    `is_ready`: the world's ring holds it; `is_held`: its module is over budget; `is_moving`: its module's map
    becomes cells.
    """
    if (status := entry.get("status")) is not None:
        return Reason(status, entry.get("since"), entry.get("code"), entry.get("text"))
    if not entry.get("queue"):
        return None if entry.get("intents") else Reason(EVENT)
    if paused:
        return Reason(PAUSED)
    if is_moving:
        return Reason(MOVING, text="it runs when all entries of the map are cells")
    if is_held:
        return Reason(OVER_BUDGET, text="its module has as many open intents as it may")
    return Reason(TURN) if is_ready else None


def reason_of_intent(height: int, intent: OpenIntent) -> Reason:
    """What the cell of an open intent waits for."""
    kind, more = intent.kind, intent.extras
    since_ns = more["since_ns"]
    match intent.status:
        case rows.TIMER:
            return Reason(TIMER, height, kind=kind, time_ns=pair_of(more["due"])[0])
        case rows.PARKED:
            denied_ns = pair_of(more["due"])[0] if "due" in more else 0
            return Reason(
                APPROVAL, height, text=more.get("text", ""), kind=kind, time_ns=since_ns,
                rule=more.get("rule", ""), denied_ns=denied_ns,
            )  # fmt: skip
        case rows.HELD:
            text = "which this fork holds: approve it, deny it, or give its receipt"
            return Reason(APPROVAL, height, text=text, kind=kind, time_ns=since_ns)
        case rows.OUTSIDE:
            text = f"which somebody outside completes, until {_moment(pair_of(more['due'])[0])}"
            return Reason(RECEIPT, height, text=text, kind=kind, time_ns=since_ns)
        case rows.WAITING:
            text = f"that of the intent at height {more['same']}, which has the same idempotency key"
            return Reason(RECEIPT, height, text=text, kind=kind, time_ns=since_ns)
    return Reason(RECEIPT, height, kind=kind, time_ns=since_ns)


@dataclass(frozen=True, slots=True)
class _Indexes:
    """Where reasons of intents are looked up: those of a live ledger, or of a snapshot."""

    intents: OrderedIndex[OpenIntent]
    timers: OrderedIndex[TimerRow]

    def reasons(self, entry: Entry) -> Generator[Need, None, tuple[Reason, ...]]:
        """The reasons of a cell that waits for its open intents; none if one of them is never settled."""
        found: list[Reason] = []
        for height in entry.get("intents", ())[:REASONS_MAX]:
            intent = yield from self.intents.get(pair_key(height, 0))
            reason = None if intent is None else (yield from self._reason(height, intent))
            if reason is None:
                return ()
            found.append(reason)
        return tuple(found)

    def _reason(self, height: int, intent: OpenIntent) -> Generator[Need, None, Reason | None]:
        status, more = intent.status, intent.extras
        if "due" in more and (yield from self.timers.get(more["due"])) is None:
            return None
        if status == rows.DENIED:
            return None
        if status == rows.WAITING and (yield from self.intents.get(pair_key(more["same"], 0))) is None:
            return None
        return reason_of_intent(height, intent)


def reasons_in(ledger: Ledger, base: str, key: bytes) -> Generator[Need, None, tuple[Reason, ...] | None]:
    """What a cell of a live world waits for, between two beats; None where there is no such cell."""
    yield from ledger.slots([(base, key)])
    slot = ledger.cells(base).slot(key)
    entry = slot.at_rest()
    is_ready = any(each is slot for each in ledger.ring)
    is_held = ledger.is_held(slot)
    ledger.drop_idle()
    if entry is None:
        return None
    is_moving = base in ledger.moves
    reason = reason_of(
        entry, is_ready=is_ready, paused=ledger.paused, is_held=is_held, is_moving=is_moving
    )  # fmt: skip
    if reason is not None or slot.queue:
        return () if reason is None else (reason,)
    return (yield from _Indexes(ledger.book.open, ledger.timers).reasons(entry))


def _moment(time_ns: int) -> str:
    """A time in UTC, to the millisecond."""
    return time_text(time_ns // 1_000_000 * 1_000_000)
