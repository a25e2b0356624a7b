"""Recorded intents applied to a ledger, and the proof that their records fit each other.

An Intent stands behind the step (or the retry) it belongs to and is followed by its Decision; a Receipt is
for an intent that is open. What a frame begins it ends: whoever was denied, abandoned, or waited for a
receipt that came, has its own receipt before the frame is over. Anything else is a `Contradiction`.

Whether a decision was right is not asked: that would run the policy again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from cellule.kernel.journal.codes import (
    ALLOW,
    DELETED,
    DENY,
    NEXT_BEAT,
    NOBODY,
    OK,
    OUTSIDE,
    PARK,
    SAME,
    Settled,
)  # fmt: skip
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
)
from cellule.kernel.journal.records import (
    DecisionExtras,
    DecisionRecord,
    IntentRecord,
    ReceiptExtras,
    ReceiptRecord,
    Record,
    StepRecord,
)
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.system import EFFECT_RECEIPT_REJECTED, TIMER_FIRED, receipt_event
from cellule.kernel.need import Need, fetch
from cellule.kernel.state import intent_changes as applying
from cellule.kernel.state import rows
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.intent_id import idempotency_hash, intent_digest, params_digest
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import DeadLetter, OpenIntent
from cellule.values.envelope import value_of


class Contradiction(ValueError):
    """A record does not fit the world, or the records before it."""


class RecordedIntents:
    """Applies the records about intents, frame by frame."""

    def __init__(self, ledger: Ledger, lineage: Lineage) -> None:
        self._ledger = ledger
        self._lineage = lineage
        self._owed: set[int] = set()  # intents that need a receipt before the frame ends
        self._frame: Frame  # this and what follows is set by `begin`
        self._intent: applying.Intent | None  # an Intent record, until its Decision
        self._asked: tuple[int, int]  # the step or retry that asks, and how many intents it has so far
        self._letter: DeadLetter | None  # the dead letter that the last retry took

    def begin(self, frame: Frame) -> None:
        """The next records are of this frame."""
        self._frame = frame
        self._intent, self._letter, self._asked = None, None, (0, 0)

    def end(self) -> None:
        """The frame's last record was applied."""
        self.expect_none()
        if self._owed:
            raise Contradiction(f"intent {min(self._owed)} has no receipt in the frame that settles it")

    @property
    def is_asking(self) -> bool:
        """Tell whether an Intent waits for its Decision."""
        return self._intent is not None

    def expect_none(self) -> None:
        """No Intent waits for its Decision."""
        if self._intent is not None:
            raise Contradiction(f"intent {self._intent.height} is not followed by its decision")

    def asks(self, height: int) -> None:
        """A step or a retry was applied: the intents that follow are its own."""
        self._asked = (height, 0)

    def abandons(self, heights: Iterable[int]) -> None:
        """A cell with these open intents was deleted."""
        self._owed.update(heights)

    def postpones(self, place: bytes) -> Generator[Need, None, None]:
        """Those who wait for the receipt of this idempotency key get it in a later frame."""
        known = yield from self._ledger.book.keys.get(place)
        if known is None or known.receipt is None or not known.waiters:
            raise Contradiction("nobody waits for a receipt that has come")
        self._owed.difference_update(known.waiters)

    def has_answered(self, place: bytes) -> Generator[Need, None, None]:
        """Nobody waits for the receipt of this idempotency key any more."""
        known = yield from self._ledger.book.keys.get(place)
        if known is not None and known.receipt is not None and known.waiters:
            raise Contradiction(f"intent {known.waiters[0]} waits for a receipt that has come")

    def takes_letter(self, letter: DeadLetter) -> None:
        """A retry took a dead letter: the next intent asks for the same again."""
        self._letter = letter

    # Intents

    def intended(self, height: int, record: IntentRecord) -> None:
        """An Intent record; it takes effect with its Decision."""
        cause, position = record.cause, record.position
        if (cause, position) != self._asked:
            raise Contradiction(f"intent {position} of {cause} is not the one that follows: {self._asked}")
        self._asked = (cause, position + 1)
        self._intent = applying.Intent(
            height, b"", record.module, record.key, record.born, record.kind, record.params, record.extras
        )
        self._check_origin(self._frame.at(cause), self._intent)

    def _check_origin(self, origin: Record, intent: applying.Intent) -> None:
        if isinstance(origin, StepRecord):
            cell = (origin.module, origin.key, origin.born)
            if cell != (intent.base, intent.key, intent.born) or origin.status not in (OK, DELETED):
                raise Contradiction("the intent is not of the cell that steps")
            return
        if isinstance(origin, AgendaRecord):
            if intent.born:
                raise Contradiction("the intent of an enzyme belongs to a cell")
            return
        letter, self._letter = self._letter, None
        if letter is None:
            raise Contradiction("the intent follows neither a step nor a retry")
        asked = letter.letter
        kept = {name: asked[name] for name in applying.REQUEST_EXTRAS if name in asked}
        again = [letter.module, letter.key, asked["born"], asked["kind"], asked["params"], kept]
        if again != [intent.base, intent.key, intent.born, intent.kind, intent.params, dict(intent.extras)]:
            raise Contradiction("the intent does not ask what its dead letter says")

    # Decisions

    def decided(self, record: DecisionRecord) -> Generator[Need, None, None]:
        """A Decision record: the first of an intent, or what a person decided on a parked one."""
        cause, verdict, extras = record.cause, record.verdict, record.extras
        intent, self._intent = self._intent, None
        if intent is None:
            yield from self._decided_later(cause, verdict, extras)
            return
        if intent.height != cause:
            raise Contradiction(f"intent {intent.height} is followed by the decision on {cause}")
        yield from self._check_first(intent, verdict, extras)
        data = yield from self._bytes(intent.params)
        step, position = self._asked[0], self._asked[1] - 1
        world = self._lineage.world_at(step).bytes
        digest = intent_digest(world, intent.base, intent.key, intent.born, step, position, intent.kind, data)
        slot = self._slot(intent.base, intent.key)
        yield from applying.decided(self._ledger, slot, intent._replace(digest=digest), verdict, extras)

    def _check_first(
        self, intent: applying.Intent, verdict: int, extras: DecisionExtras
    ) -> Generator[Need, None, None]:
        if verdict not in (ALLOW, DENY, PARK, SAME):
            raise Contradiction(f"there is no verdict {verdict!r}")
        is_timer = verdict == ALLOW and intent.kind == TIMER_SET
        if verdict != PARK and ("due_ns" in extras) != is_timer:
            raise Contradiction("timers have a time when they are due, and nothing else has")
        if "held" in extras and (verdict != ALLOW or is_timer or self._ledger.branch is None):
            raise Contradiction("only a fork holds what is dispatched elsewhere")
        if "over" in extras and (verdict != ALLOW or is_timer):
            raise Contradiction("an intent that is not dispatched brings no module to its limit")
        self._check_over(intent.base, extras)
        # Whoever was denied is told in the same frame; `end` sees to that.
        if verdict == DENY:
            self._owed.add(intent.height)
        known = None
        if "key" in intent.extras:
            place = idempotency_hash(intent.base, intent.kind, intent.extras["key"])
            known = yield from self._ledger.book.remembered(place, self._ledger.now_ns)
        if verdict == SAME:
            if known is None or known.height != extras.get("same"):
                raise Contradiction("no intent with its idempotency key stands for it")
            if known.params != params_digest(intent.params):
                raise Contradiction(f"intent {known.height} with its idempotency key asks for something else")
            if known.receipt is not None:
                self._owed.add(intent.height)
        elif verdict != DENY and known is not None and known.receipt is None:
            raise Contradiction(f"intent {known.height} with its idempotency key is open")

    def _decided_later(
        self, height: int, verdict: int, extras: DecisionExtras
    ) -> Generator[Need, None, None]:
        opened = yield from self._open_intent(height)
        if verdict == OUTSIDE:
            self._held_outside(height, opened, extras)
            return
        if "fork" in extras:
            self._check_forked(height, opened, verdict)
            self._check_over(opened.module, extras)
            yield from applying.forked(self._ledger, height, opened, extras)
            return
        is_waiting = opened.status in (rows.PARKED, rows.HELD)
        if not is_waiting or verdict not in (ALLOW, DENY) or "control" not in extras:
            raise Contradiction(f"intent {height} is {opened.status}, and cannot be decided again")
        if verdict == DENY:
            self._owed.add(height)
            return
        if ("due_ns" in extras) != (opened.kind == TIMER_SET):
            raise Contradiction("timers have a time when they are due, and nothing else has")
        self._check_over(opened.module, extras)
        yield from applying.approved(self._ledger, height, opened, extras)

    def _check_forked(self, height: int, opened: OpenIntent, verdict: int) -> None:
        """What was open at the fork is dispatched by it, too, or held."""
        branch = self._ledger.branch
        if branch is None or not branch.next <= height <= branch.height or not branch.next:
            raise Contradiction(f"intent {height} was not open at a fork that begins here")
        if opened.status not in rows.DISPATCHED or verdict != ALLOW:
            raise Contradiction(f"intent {height} is {opened.status}, and goes on by itself")

    def _held_outside(self, height: int, opened: OpenIntent, extras: DecisionExtras) -> None:
        if opened.status != rows.OPEN or "due_ns" not in extras:
            raise Contradiction(f"intent {height} is {opened.status}, and waits for nobody outside")
        if "under" in extras and opened.module not in self._ledger.book.over:
            raise Contradiction(f"{opened.module} is not at its limit")
        applying.held_outside(self._ledger, height, opened, extras)

    def _check_over(self, base: str, extras: DecisionExtras) -> None:
        if "over" in extras and base in self._ledger.book.over:
            raise Contradiction(f"{base} is at its limit already")

    # Receipts

    def received(self, height: int, record: ReceiptRecord) -> Generator[Need, None, None]:
        """A Receipt record: its intent is settled."""
        cause = record.cause
        opened = yield from self._open_intent(cause)
        if (opened.module, opened.key, opened.born) != (record.module, record.key, record.born):
            raise Contradiction(f"intent {cause} is not of the cell recorded")
        slot = self._slot(record.module, record.key)
        self._check_receipt(slot, opened, record)
        self._check_extras(opened, record.status, record.schema, record.extras)
        outcome = applying.Outcome(
            height, record.status, record.schema, value_of(record.value), record.value, record.delivery,
            record.extras,
        )  # fmt: skip
        self._owed.update((yield from applying.settled(self._ledger, slot, cause, opened, outcome)))
        self._owed.discard(cause)

    def _check_receipt(self, slot: Slot, opened: OpenIntent, record: ReceiptRecord) -> None:
        status, schema, delivery = record.status, record.schema, record.delivery
        if status not in _SETTLED or (opened.status == rows.DENIED and status != Settled.DENIED):
            raise Contradiction(f"an intent that is {opened.status} cannot end with status {status}")
        is_fired = schema == TIMER_FIRED and opened.kind == TIMER_SET and status == Settled.OK
        is_rejected = schema == EFFECT_RECEIPT_REJECTED and status == Settled.FAILED
        if schema != receipt_event(opened.kind) and not is_fired and not is_rejected:
            raise Contradiction(f"{schema} is no receipt of {opened.kind} with status {status}")
        if not NOBODY <= delivery <= NEXT_BEAT:
            raise Contradiction(f"there is no way {delivery!r} to tell a cell")
        cell = slot.entry
        if delivery != NOBODY and (cell is None or not cell.is_life(opened.born)):
            raise Contradiction("the cell that is told is not there")

    def _check_extras(self, opened: OpenIntent, status: int, schema: str, extras: ReceiptExtras) -> None:
        is_waiting = opened.status == rows.WAITING
        if "fired" in extras and not is_waiting and extras["fired"] != opened.extras.get("due"):
            raise Contradiction("the timer that fired is not that of the intent")
        if schema == TIMER_FIRED and "fired" not in extras and not is_waiting:
            raise Contradiction("the intent's timer has not fired")
        if "exhausted" in extras and (status == Settled.OK or opened.status not in (rows.OPEN, rows.OUTSIDE)):
            raise Contradiction("an intent that no adapter gave up leaves no dead letter")
        if "answer" in extras and self._ledger.branch is None:
            raise Contradiction("a world that is no fork has no answers")
        if "step" in extras:
            self._check_cancel(opened, status, extras["step"])
        is_counted = opened.status in (rows.OPEN, rows.HELD)
        if "under" in extras and (not is_counted or opened.module not in self._ledger.book.over):
            raise Contradiction(f"{opened.module} is not at its limit")

    def _check_cancel(self, opened: OpenIntent, status: int, height: int) -> None:
        """A step cancels what its own cell asked for."""
        step = self._frame.at(height)
        if not isinstance(step, StepRecord) or status != Settled.CANCELLED:
            raise Contradiction("what no step did is no step's cancellation")
        if (step.module, step.key, step.born) != (opened.module, opened.key, opened.born):
            raise Contradiction("a cell cancels only what it asked for itself")

    # The ledger

    def _open_intent(self, height: int) -> Generator[Need, None, OpenIntent]:
        opened = yield from self._ledger.book.find(height)
        if opened is None:
            raise Contradiction(f"no intent {height} is open")
        return opened

    def _slot(self, base: str, key: bytes) -> Slot:
        return self._ledger.cells(base).slot(key)

    def _bytes(self, stored: Any) -> Generator[Need, None, bytes]:
        value = value_of(stored)
        if isinstance(value, bytes):
            return value
        found = yield from fetch(self._ledger.nodes, (value.cid,))
        return found[value.cid]


_SETTLED = frozenset(int(status) for status in Settled)
