"""Timers of intents that are due: one that a step set, the end of a wait, and answers that were put off."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cellule.errors import Corrupted, Gone
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.index.keys import pair_of
from cellule.kernel.journal.codes import AT_ONCE, NOBODY, Settled
from cellule.kernel.journal.records import TimerRecord
from cellule.kernel.limits import DEPTH_MAX
from cellule.kernel.manifest.system import TIMER_FIRED
from cellule.kernel.need import Need
from cellule.kernel.state.intent_id import intent_text
from cellule.kernel.state.rows import TimerRow
from cellule.values.cbor import decode_trusted, encode


def fire(context: BeatContext, fired: bytes, timer: TimerRow) -> Generator[Need, None, None]:
    """A timer that belongs to an intent is due: it fires, or the wait for an approval is over."""
    what, base, key, height = timer
    intent = yield from context.ledger.book.find(height)
    if intent is None or intent.extras.get("due") != fired:
        raise Corrupted(
            "kernel.timer_damaged", "timer {key} has no intent {height}", key=fired, height=height
        )
    slot = yield from context.slot(base, key)
    extra = {"fired": fired}
    if what == "outside":
        told = settling.Settlement("effects.not_completed", "nobody completed it in time")
        letter = {**extra, "exhausted": True}
        yield from settling.settle(
            context, slot, height, intent, Settled.TIMEOUT, None, told, AT_ONCE, letter
        )
        return
    if what == "approval":
        told = settling.Settlement("kernel.approval_expired", "nobody approved it in time")
        yield from settling.settle(context, slot, height, intent, Settled.DENIED, None, told, AT_ONCE, extra)
        return
    try:
        params: Any = decode_trusted((yield from context.value_of(intent.extras["params"])))
    except Gone:  # an ancestor of this fork erased the cell: the timer still fires
        params = {}
    event: dict[str, Any] = {
        "intent_id": intent_text(intent.id),
        "due_ns": pair_of(fired)[0],
        "fired_ns": context.ledger.now_ns,
    }
    if params.get("key") is not None:
        event["key"] = params["key"]
    yield from settling.write(
        context,
        slot,
        height,
        intent,
        Settled.OK,
        TIMER_FIRED,
        encode(event),
        settling.Settlement(),
        AT_ONCE,
        extra,
    )


def answer(context: BeatContext, fired: bytes, timer: TimerRow) -> Generator[Need, None, None]:
    """Go on with those who wait for a receipt that has come, as many as the frame takes.

    Beyond `DEPTH_MAX` they are settled and not told: the cascade ends here, too.
    """
    ledger, cause, (_, base, place, depth) = context.ledger, pair_of(fired)[1], timer
    known = yield from ledger.book.keys.get(place)
    # Where all left meanwhile, the same may have been asked for again, and waits for another receipt.
    waiters = [] if known is None or known.receipt is None else known.waiters
    yield from ledger.book.expect(waiters)
    extra = {"fired": fired, "depth": depth} if depth else {"fired": fired}
    for waiter in waiters:
        if context.writer.is_full():
            settling.postpone(context, cause, fired, place, base, depth)
            return
        assert known is not None
        assert known.receipt is not None  # the timer is armed with it
        delivery = AT_ONCE if depth <= DEPTH_MAX else NOBODY
        yield from settling.pass_on(context, waiter, known.receipt, delivery, extra)
    context.writer.add(TimerRecord(cause, fired, 0, None))
    ledger.arm(fired, 0, 0, None)
