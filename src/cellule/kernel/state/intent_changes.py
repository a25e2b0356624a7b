"""What records about intents do to the world: the same live and in replay.

Nothing here decides, routes or reads a manifest. Everything that is needed stands in the records: that a
module reached its limit (`over`) or is below it again (`under`), when a timer is due, which period a grant
spent.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from cellule.errors import ensure
from cellule.kernel.index.keys import pair_key
from cellule.kernel.journal.codes import ALLOW, AT_ONCE, DENY, NEXT_BEAT, PARK
from cellule.kernel.need import Need
from cellule.kernel.state import rows
from cellule.kernel.state.branch import Branch
from cellule.kernel.state.cells import RECEIPT_MESSAGE, Message, Slot
from cellule.kernel.state.expectation import Asker
from cellule.kernel.state.intent_id import idempotency_hash, intent_text, params_digest
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import DeadLetter, KnownReceipt, OpenIntent, TimerRow
from cellule.values.link import Link

REQUEST_EXTRAS = ("entry", "key", "limits", "operation", "slot")
"""What an Intent record may say besides kind and params, and a dead letter keeps of it."""
_KEPT = (*REQUEST_EXTRAS, "grant", "rule", "same")  # fields of records that the book keeps, too
_STATUS = {ALLOW: rows.OPEN, DENY: rows.DENIED, PARK: rows.PARKED}


class Intent(NamedTuple):
    """An Intent record: `params` as the record stores it, `extras` with its key and slot."""

    height: int
    digest: bytes
    base: str
    key: bytes
    born: int
    kind: str
    params: Any
    extras: Mapping[str, Any]


class Outcome(NamedTuple):
    """A Receipt record: `value` as the message carries it, `stored` as the record does."""

    height: int
    status: int
    schema: str
    value: bytes | Link
    stored: Any
    delivery: int
    extras: Mapping[str, Any]


def decided(
    ledger: Ledger, slot: Slot, intent: Intent, verdict: int, extras: Mapping[str, Any]
) -> Generator[Need, None, OpenIntent]:
    """An intent and its first decision; returns it as it is open now."""
    is_new = intent.height > ledger.height
    ensure(is_new, "kernel.intent_order", "intent {height} is of an older frame", height=intent.height)
    kept: dict[str, Any] = {"params": intent.params, "since_ns": ledger.now_ns}
    for source in (intent.extras, extras):
        kept.update({name: source[name] for name in _KEPT if name in source})
    status = _STATUS.get(verdict, rows.WAITING)
    if extras.get("held"):
        status = rows.HELD
    if verdict == PARK and "text" in extras:
        kept["text"] = extras["text"]
    # What is parked waits for its approval until then; anything else with a time is a timer.
    if "due_ns" in extras:
        what = "approval" if verdict == PARK else "intent"
        status = status if verdict == PARK else rows.TIMER
        kept["due"] = _arm(ledger, what, intent.base, intent.key, intent.height, extras["due_ns"])
    opened = OpenIntent(intent.digest, intent.base, intent.key, intent.born, intent.kind, status, kept)
    ledger.book.add(intent.height, opened)
    attach(ledger, slot, intent.born, intent.height)
    if "period" in extras:
        spend(ledger, extras)
    if "key" in kept:
        yield from _keyed(ledger, intent, verdict, kept)
    if extras.get("over"):
        yield from ledger.hold(intent.base)
    return opened


def attach(ledger: Ledger, slot: Slot, born: int, *heights: int) -> None:
    """A cell waits for more receipts; a cell that is gone does not."""
    entry = slot.entry
    if entry is not None and entry.is_life(born):
        known = entry.get("intents", [])
        is_new = heights[0] not in known
        ensure(is_new, "kernel.intent_cell", "cell {key} waits twice for an intent", key=slot.key)
        slot.entry = entry.with_extras({**(entry.extras or {}), "intents": [*known, *heights]})
        ledger.touch(slot)


def detach(ledger: Ledger, slot: Slot, born: int, height: int) -> None:
    """A cell no longer waits for a receipt; nothing changes if this incarnation of it is gone."""
    entry = slot.entry
    if entry is None or not entry.is_life(born):
        return
    waits = entry.get("intents", [])
    heights = [each for each in waits if each != height]
    is_known = len(heights) == len(waits) - 1
    text = "cell {key} does not wait for intent {height}"
    ensure(is_known, "kernel.intent_cell", text, key=slot.key, height=height)
    if heights:
        slot.entry = entry.with_extras({**(entry.extras or {}), "intents": heights})
    else:
        slot.entry = entry.without("intents")
    ledger.touch(slot)


def spend(ledger: Ledger, extras: Mapping[str, Any]) -> None:
    """Count an allowed intent in the budget of its grant."""
    if "spender" in extras:
        ledger.book.spend_by(extras["grant"], extras["period"], extras["spender"])
    else:
        ledger.book.spend(extras["grant"], extras["period"])


def _arm(ledger: Ledger, what: str, base: str, key: bytes, height: int, due_ns: int) -> bytes:
    due = pair_key(due_ns, height)
    ledger.timers.insert(due, TimerRow(what, base, key, height))
    return due


def _keyed(
    ledger: Ledger, intent: Intent, verdict: int, kept: Mapping[str, Any]
) -> Generator[Need, None, None]:
    book, place = ledger.book, idempotency_hash(intent.base, intent.kind, kept["key"])
    if "same" in kept:
        known = yield from book.remembered(place, ledger.now_ns)
        if known is not None and known.receipt is None:
            book.wait_for(place, known, intent.height)
    elif verdict in (ALLOW, PARK):
        yield from book.remember(place, params_digest(intent.params), intent.height, ledger.now_ns)


def approved(
    ledger: Ledger, height: int, intent: OpenIntent, extras: Mapping[str, Any]
) -> Generator[Need, None, OpenIntent]:
    """A parked or held intent may be dispatched, or a parked one is held now; a timer is armed now."""
    is_waiting = intent.status in (rows.PARKED, rows.HELD)
    ensure(
        is_waiting, "kernel.intent_status", "intent {height} is {status}, and waits for no approval",
        height=height, status=intent.status,
    )  # fmt: skip
    if "due" in intent.extras:
        ledger.timers.remove(intent.extras["due"])
    since = {"since_ns": ledger.now_ns, "text": None}
    if "due_ns" in extras:
        due = _arm(ledger, "intent", intent.module, intent.key, height, extras["due_ns"])
        return ledger.book.change(height, intent, rows.TIMER, due=due, **since)
    status = rows.HELD if extras.get("held") else rows.OPEN
    changed = ledger.book.change(height, intent, status, due=None, **since)
    if extras.get("over"):
        yield from ledger.hold(intent.module)
    return changed


def begin_fork(ledger: Ledger, branch: Branch) -> None:
    """The world is a fork, and nothing else has happened in it."""
    is_here = branch.height == ledger.height
    ensure(is_here, "kernel.fork_order", "a fork begins at {height}", height=branch.height)
    ledger.branch = branch


def forked(
    ledger: Ledger, height: int, intent: OpenIntent, extras: Mapping[str, Any]
) -> Generator[Need, None, OpenIntent]:
    """An intent that was open at a fork is dispatched by the fork, too, or held."""
    if "due" in intent.extras:  # somebody outside was to complete it, in the other world
        ledger.timers.remove(intent.extras["due"])
    status = rows.HELD if extras.get("held") else rows.OPEN
    changed = ledger.book.change(height, intent, status, due=None)
    if extras.get("over"):
        yield from ledger.hold(intent.module)
    return changed


def held_outside(ledger: Ledger, height: int, intent: OpenIntent, extras: Mapping[str, Any]) -> None:
    """The adapter of an intent has done its part: it waits for somebody outside, until a time."""
    is_open = intent.status == rows.OPEN
    ensure(
        is_open, "kernel.intent_status", "intent {height} is {status}, and no adapter has it",
        height=height, status=intent.status,
    )  # fmt: skip
    due = _arm(ledger, "outside", intent.module, intent.key, height, extras["due_ns"])
    ledger.book.change(height, intent, rows.OUTSIDE, due=due)
    if extras.get("under"):
        ledger.unhold(intent.module)


def settled(
    ledger: Ledger, slot: Slot, height: int, intent: OpenIntent, outcome: Outcome
) -> Generator[Need, None, list[int]]:
    """The intent at `height` has its receipt; returns the heights of intents that waited for it."""
    digest, base, key, born, kind, _, kept = intent
    is_later = outcome.height > height
    ensure(is_later, "kernel.intent_order", "intent {height} is settled before it was opened", height=height)
    if "answer" in outcome.extras and ledger.branch is not None:
        yield from ledger.branch.take(outcome.extras["answer"])
    ledger.book.remove(height, intent)
    if "due" in kept:
        ledger.timers.remove(kept["due"])
    detach(ledger, slot, born, height)
    waiters = yield from _answer_key(ledger, height, intent, outcome)
    # The letter has all that a retry needs, for the intent itself is gone.
    if outcome.extras.get("exhausted"):
        letter = {"born": born, "height": height, "kind": kind, "params": kept["params"]}
        letter.update({name: kept[name] for name in REQUEST_EXTRAS if name in kept})
        letter["key"] = kept.get("key") or intent_text(digest)
        code, text = outcome.extras.get("code", ""), outcome.extras.get("text", "")
        ledger.dead_letters.insert(pair_key(outcome.height, 1), DeadLetter(base, key, code, text, letter))
    if outcome.extras.get("under"):
        ledger.unhold(base)
    depth = outcome.extras.get("depth", 0)
    asker = Asker(born, kept["entry"]) if "entry" in kept else born
    message = Message(outcome.height, RECEIPT_MESSAGE, outcome.schema, outcome.value, depth, asker)
    if outcome.delivery == AT_ONCE:
        ledger.deliver(slot, message)
    elif outcome.delivery == NEXT_BEAT:
        ledger.emit(message, [(base, key)])
    return waiters


def _answer_key(
    ledger: Ledger, height: int, intent: OpenIntent, outcome: Outcome
) -> Generator[Need, None, list[int]]:
    kept = intent.extras
    if "key" not in kept or intent.status == rows.DENIED:
        return []
    place = idempotency_hash(intent.module, intent.kind, kept["key"])
    known = yield from ledger.book.remembered(place, ledger.now_ns)
    if known is None:
        return []
    if "same" in kept:
        if height in known.waiters:
            ledger.book.no_longer_waits(place, known, height)
        return []
    if known.height != height:
        return []
    receipt = KnownReceipt(outcome.status, outcome.schema, outcome.stored)
    ledger.book.answered(place, known, receipt)
    return known.waiters
