"""Receipts: what settles an intent, and how its cell hears of it.

An intent is settled exactly once: by its adapter's receipt, its timer, a person, or the kernel (denied,
abandoned). A receipt for an intent that is not open is refused and recorded. A payload that does not fit
settles the intent as `failed`; a module that takes `sys/EffectReceiptRejected@1` hears of it by that.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cellule.errors import CelluleError, Corrupted, Gone, Rejected
from cellule.kernel.decide import impulses
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import life
from cellule.kernel.decide.intents.outside import OUTSIDE_ITEM, hold
from cellule.kernel.decide.refusals import refused
from cellule.kernel.items import Admitted, Outcome, ReceiptItem, RefusedItem
from cellule.kernel.journal.codes import AT_ONCE, NOBODY, Settled
from cellule.kernel.journal.fields import RetentionTimer
from cellule.kernel.journal.records import EmittedRecord, ReceiptRecord, TimerRecord
from cellule.kernel.key_ring import UNREADABLE
from cellule.kernel.limits import DEPTH_MAX, ERROR_TEXT_MAX, RECEIPT_BYTES_MAX
from cellule.kernel.manifest.system import (
    CASCADE_STOPPED,
    EFFECT_RECEIPT_REJECTED,
    TIMER_FIRED,
    receipt_event,
)
from cellule.kernel.need import Need
from cellule.kernel.state import intent_changes as applying
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.state.intent_id import idempotency_hash, intent_shown, intent_text
from cellule.kernel.state.rows import OPEN, OUTSIDE, KnownReceipt, OpenIntent, TimerRow
from cellule.values.cbor import decode, decode_trusted, encode

NAMES: Final = {status: status.name.lower() for status in Settled}
BY_NAME: Final = {name: status for status, name in NAMES.items()}
_GIVEN: Final = frozenset(("ok", "failed", "timeout", "cancelled", "denied"))


Payload = tuple[Any] | None
"""What an adapter answered, as plain data that is known to fit; None where it answered nothing."""


class Settlement(NamedTuple):
    """Why an intent did not end well."""

    code: str = ""
    text: str = ""


def settle(
    context: BeatContext, slot: Slot, height: int, intent: OpenIntent, status: Settled, payload: Payload,
    ending: Settlement, delivery: int, extra: Mapping[str, Any],
) -> Generator[Need, None, int]:  # fmt: skip
    """Write the receipt of the intent at `height` and make it so; returns the receipt's height.

    `payload` holds the value where there is one. `delivery` is how its cell hears of it, if it is there and
    takes such an event.
    """
    schema = receipt_event(intent.kind)
    value = _event(intent, status, payload, ending)
    if ending.code == _INVALID and (yield from context.takes(slot, intent.born, EFFECT_RECEIPT_REJECTED)):
        schema, value = EFFECT_RECEIPT_REJECTED, _rejected(intent, ending, extra)
    return (yield from write(context, slot, height, intent, status, schema, value, ending, delivery, extra))


def repeat(
    context: BeatContext, slot: Slot, height: int, intent: OpenIntent, receipt: KnownReceipt, delivery: int,
    extra: Mapping[str, Any],
) -> Generator[Need, None, int]:  # fmt: skip
    """Settle an intent with the receipt that another one with its idempotency key got."""
    status, schema, held = receipt
    try:
        first: Any = decode_trusted((yield from context.value_of(held)))
    except Gone as erased:
        lost = Settlement(erased.code, str(erased))
        return (yield from settle(context, slot, height, intent, Settled.FAILED, None, lost, delivery, extra))
    if schema == TIMER_FIRED:
        event = encode({**first, "intent_id": intent_text(intent.id)})
        return (yield from write(
            context, slot, height, intent, Settled(status), schema, event, Settlement(), delivery, extra
        ))  # fmt: skip
    payload = (first["value"],) if "value" in first else None
    ending = Settlement(first.get("code", ""), first.get("text", ""))
    return (
        yield from settle(context, slot, height, intent, Settled(status), payload, ending, delivery, extra)
    )


def write(
    context: BeatContext, slot: Slot, height: int, intent: OpenIntent, status: Settled, schema: str,
    value: bytes, ending: Settlement, delivery: int, extra: Mapping[str, Any],
) -> Generator[Need, None, int]:  # fmt: skip
    """Write the receipt of an intent, whose cell hears of it by this event, and answer those who wait."""
    _, base, key, born, _, _, _ = intent
    others = delivery  # how those hear of it that wait for the same receipt
    if delivery and not (yield from context.takes(slot, born, schema)):
        delivery = NOBODY
    is_stopped = delivery != NOBODY and extra.get("depth", 0) > DEPTH_MAX
    if is_stopped:
        delivery = NOBODY
    extras: Any = {**extra}
    keys = () if ending.code in _OWN_WORDS else (yield from context.sealer.keys_of([(base, key)]))
    if ending.code:
        extras["code"], extras["text"] = ending.code, context.sealer.text(keys, ending.text)
    if context.is_below(intent):
        extras["under"] = True
    value = context.sealer.value(keys, value)
    stored = context.hold_value(value)
    record = ReceiptRecord(height, base, key, born, int(status), schema, stored, delivery, extras)
    at = context.writer.add(record)
    carried = value if isinstance(stored, list) else stored
    outcome = applying.Outcome(at, int(status), schema, carried, stored, delivery, extras)
    waiters = yield from applying.settled(context.ledger, slot, height, intent, outcome)
    if is_stopped:
        _stop_cascade(context, slot, outcome)
    text = "" if keys else ending.text  # the tree is not sealed
    if extra.get("exhausted") and context.ledger.heartbeat is not None:
        about = {"module": base, "key": key, "height": at, "code": ending.code, "text": text}
        yield from impulses.warn(context, at, about, extra.get("depth", 0), impulses.ERROR)
    yield from life.settled(context, at, intent, status, text, extra)
    if not born:
        yield from _send_back(context, at, key, stored, extra.get("depth", 0))
    passed = {name: extra[name] for name in ("fired", "depth") if name in extra}
    receipt = KnownReceipt(int(status), schema, stored)
    for waiter in waiters:
        if context.writer.is_full():
            place = idempotency_hash(base, intent.kind, intent.extras["key"])
            postpone(context, at, None, place, base, extra.get("depth", 0))
            break
        yield from pass_on(context, waiter, receipt, others, passed)
    return at


def _send_back(
    context: BeatContext, at: int, key: bytes, stored: Any, depth: int
) -> Generator[Need, None, None]:
    """The receipt of an enzyme's effect is an impulse: the signal and the target stand in place of a key."""
    place: Any = decode_trusted(key)
    signal, target = place
    if signal is not None:
        yield from impulses.queue(context, at, signal, target, stored, depth=min(depth, DEPTH_MAX))


def _stop_cascade(context: BeatContext, slot: Slot, outcome: applying.Outcome) -> None:
    """Tell that a receipt was too many emits away from the outside to be delivered."""
    writer, base = context.writer, slot.cells.base
    value = encode({
        "module": base, "key": slot.key, "height": outcome.height, "depth": outcome.extras["depth"],
        "schema": outcome.schema,
    })  # fmt: skip
    depth: int = outcome.extras["depth"]
    targets = context.eras.current.router.reachable(CASCADE_STOPPED, value) if depth == DEPTH_MAX + 1 else []
    record = EmittedRecord(outcome.height, depth, CASCADE_STOPPED, writer.value(value), targets)
    at = writer.add(record)
    if targets:
        message = Message(at, EVENT_MESSAGE, CASCADE_STOPPED, value, depth, None)
        context.ledger.emit(message, targets)


def pass_on(
    context: BeatContext, waiter: int, receipt: KnownReceipt, delivery: int, extra: Mapping[str, Any]
) -> Generator[Need, None, None]:
    """An intent that waited for this receipt gets the same, in the same way and at the same time."""
    intent = yield from context.ledger.book.find(waiter)
    if intent is None:
        raise Corrupted("kernel.intent_missing", "intent {height} waits and is not open", height=waiter)
    slot = yield from context.slot(intent.module, intent.key)
    yield from repeat(context, slot, waiter, intent, receipt, delivery, extra)


def postpone(
    context: BeatContext, cause: int, fired: bytes | None, place: bytes, base: str, depth: int
) -> None:
    """Those who still wait for a receipt are answered in the next beat: this frame has no room for more."""
    now_ns, timer = context.ledger.now_ns, TimerRow("answer", base, place, depth)
    height = context.writer.add(TimerRecord(cause, fired, now_ns, RetentionTimer(*timer)))
    context.ledger.arm(fired, now_ns, height, timer)


# What comes from outside


def expect(context: BeatContext, items: Sequence[Any]) -> Generator[Need, None, None]:
    """Read the intents and cells of all receipts among these items together."""
    ledger, book = context.ledger, context.ledger.book
    heights = [item.height for item in items if type(item) is ReceiptItem]
    yield from book.expect(heights)
    targets: list[tuple[str, bytes]] = []
    for height in heights:
        intent = yield from book.find(height)
        if intent is not None:
            targets.append((intent.module, intent.key))
    yield from ledger.slots(targets)


def admit(context: BeatContext, item: ReceiptItem) -> Generator[Need, None, Outcome]:
    """Settle an intent by a receipt that was handed in, or refuse the receipt and record that."""
    intent = yield from context.ledger.book.find(item.height)
    sent_as = b"" if intent is None else context.sent_as(item.height, intent.id)
    problem = _problem(item, intent, sent_as)
    if problem is not None:
        return _refuse(context, item, intent, problem)
    assert intent is not None
    slot = yield from context.slot(intent.module, intent.key)
    if item.status == OUTSIDE_ITEM:
        return (yield from hold(context, item, intent))
    status, payload, ending = yield from proven(context, slot, intent.kind, item)
    is_letter = item.exhausted and status != Settled.OK and intent.status in (OPEN, OUTSIDE)
    given = {
        "by": item.by, "attempts": item.attempts, "exhausted": is_letter, "who": item.who, "why": item.why,
    }  # fmt: skip
    extra = {name: value for name, value in given.items() if value}
    # No adapter settled it, so its row and a running attempt have to be told.
    if item.who is not None and intent.status == OPEN:
        context.close(intent.id, item.height)
    at = yield from settle(context, slot, item.height, intent, status, payload, ending, AT_ONCE, extra)
    return Admitted(at)


def _problem(item: ReceiptItem, intent: OpenIntent | None, sent_as: bytes) -> Rejected | None:
    if item.status not in _GIVEN and (item.status != OUTSIDE_ITEM or item.who is not None):
        return Rejected(
            "kernel.receipt_status", "a receipt cannot say {status!r}; it says one of {known}",
            status=item.status, known=", ".join(sorted(_GIVEN)),
        )  # fmt: skip
    if intent is None:
        return Rejected(
            "kernel.receipt_late", "intent {intent} is not open: it was settled before, or never made here",
            intent=intent_shown(item.intent), hint="Nothing was changed; the first receipt counts.",
        )  # fmt: skip
    if item.status == OUTSIDE_ITEM and intent.status != OPEN:
        return Rejected(
            "kernel.receipt_late", "intent {intent} is not with an adapter any more: it is {status}",
            intent=intent_shown(item.intent), status=intent.status, hint="Nothing was changed.",
        )  # fmt: skip
    if item.intent not in (intent.id, sent_as):
        return Rejected(
            "kernel.receipt_foreign", "intent {intent} is not the one at height {height}",
            intent=intent_shown(item.intent), height=item.height,
            hint="The receipt belongs to another world.",
        )  # fmt: skip
    return None


def _refuse(
    context: BeatContext, item: ReceiptItem, intent: OpenIntent | None, problem: Rejected
) -> RefusedItem:
    name = f"receipt:{intent.kind}" if intent is not None else "receipt"
    return refused(context.writer, problem, intent_shown(item.intent), name, durable=item.durable)


def proven(
    context: BeatContext, slot: Slot, kind: str, item: ReceiptItem
) -> Generator[Need, None, tuple[Settled, Payload, Settlement]]:
    """How the intent ends: a payload that does not fit makes it fail."""
    status = BY_NAME[item.status]
    if status != Settled.OK:
        return status, None, Settlement(_written(item.code) or f"effects.{item.status}", _written(item.text))
    known = yield from context.effect(slot, kind)
    try:
        if item.value is None:
            raise Rejected(_INVALID, "it has no value")
        if len(item.value) > RECEIPT_BYTES_MAX:
            raise Rejected(
                _INVALID, "it has {size} bytes; at most {most}", size=len(item.value), most=RECEIPT_BYTES_MAX
            )
        if known is None:  # no manifest says any more what it has to be: it has to be a value
            value: Any = decode(item.value)
        else:
            era, effect = known
            value = era.fits(effect.receipt).decode(item.value)
    except CelluleError as error:
        return Settled.FAILED, None, Settlement(_INVALID, _written(f"invalid receipt: {error}"))
    return status, (value,), Settlement()


def _written(text: str) -> str:
    """A text of an adapter as a record can hold it."""
    return text[:ERROR_TEXT_MAX].encode("utf-8", "replace").decode()


# What the cell reads

_OWN_WORDS: Final = ("kernel.abandoned", *UNREADABLE)
"""Endings that say nothing but themselves: there is nothing to seal, and a key may be destroyed already."""
_INVALID: Final = "kernel.receipt_invalid"


def _event(intent: OpenIntent, status: Settled, payload: Payload, ending: Settlement) -> bytes:
    event: dict[str, Any] = {
        "intent_id": intent_text(intent.id),
        "kind": intent.kind,
        "status": NAMES[status],
    }
    if payload is not None and payload[0] is not None:
        event["value"] = payload[0]
    if ending.code:
        event["code"], event["text"] = ending
    if "key" in intent.extras:
        event["key"] = intent.extras["key"]
    return encode(event)


def _rejected(intent: OpenIntent, ending: Settlement, extra: Mapping[str, Any]) -> bytes:
    event: dict[str, Any] = {
        "module": intent.module, "key": intent.key, "intent_id": intent_text(intent.id),
        "kind": intent.kind, "code": ending.code, "text": ending.text,
    }  # fmt: skip
    if extra.get("by"):
        event["adapter"] = extra["by"]
    return encode(event)
