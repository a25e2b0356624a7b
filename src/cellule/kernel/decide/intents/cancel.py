"""A cell takes its own requests back: by name, by setting a timer of the same key anew, or as it is deleted.

The name of a timer is the `key` it was set with, that of any other effect its idempotency key. What is taken
back is settled in the same frame, as `cancelled` or `abandoned`; an attempt that runs is told to end. A name
that nothing open has is passed over: the timer may have fired a moment ago.

Rejected: cancelling by intent id. A step never learns the id of what it asks for; it knows the key.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from typing import Any

from cellule.errors import Corrupted, Gone
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.decide.requests import EffectRequest, Origin
from cellule.kernel.journal.codes import NEXT_BEAT, Settled
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.rows import OPEN, WAITING, OpenIntent
from cellule.values.cbor import decode_trusted

Found = list[tuple[int, OpenIntent]]
"""Open intents with the heights of their records."""

_ABANDONED = settling.Settlement("kernel.abandoned", "the cell that asked was deleted")
_CANCELLED = settling.Settlement("kernel.cancelled", "the cell that asked cancelled it")
_REPLACED = settling.Settlement("kernel.timer_replaced", "the cell set another timer with the same key")


def abandon(
    context: BeatContext, slot: Slot, origin: Origin, heights: Sequence[int]
) -> Generator[Need, None, None]:
    """The cell is gone: what it waited for is settled, and only those are told that waited for the same."""
    found = yield from _intents(context, slot, heights)
    yield from _settle(context, slot, origin, found, Settled.ABANDONED, _ABANDONED, {})


def abandon_entries(
    context: BeatContext, slot: Slot, origin: Origin, keys: Container[bytes]
) -> Generator[Need, None, None]:
    """Entries of a whole map are gone: what they waited for is settled, as if each had been a cell."""
    every = yield from _intents(context, slot, context.ledger.intents_of(slot))
    found = [each for each in every if each[1].extras.get("entry") in keys]
    yield from _settle(context, slot, origin, found, Settled.ABANDONED, _ABANDONED, {})


def cancel(
    context: BeatContext, slot: Slot, origin: Origin, names: Sequence[str]
) -> Generator[Need, None, None]:
    """Settle the cell's open intents that have one of these names."""
    found: Found = []
    for height, intent in (yield from _of_entry(context, slot, origin)):
        key = intent.extras.get("key")
        if key in names or (yield from _timer_key(context, intent)) in names:
            found.append((height, intent))
    step = {"step": origin.height}
    yield from _settle(context, slot, origin, found, Settled.CANCELLED, _CANCELLED, step)


def timers_like(
    context: BeatContext, slot: Slot, origin: Origin, asked: EffectRequest
) -> Generator[Need, None, Found]:
    """The cell's timers that a request replaces if it is allowed: those with the same key."""
    if asked.effect.kind != TIMER_SET:
        return []
    params: Any = decode_trusted(asked.params)
    key = params.get("key")
    if key is None:
        return []
    found: Found = []
    for height, intent in (yield from _of_entry(context, slot, origin)):
        if (yield from _timer_key(context, intent)) == key:
            found.append((height, intent))
    return found


def replace(context: BeatContext, slot: Slot, origin: Origin, timers: Found) -> Generator[Need, None, None]:
    """Settle timers that another one stands for now."""
    step = {"step": origin.height}
    yield from _settle(context, slot, origin, timers, Settled.CANCELLED, _REPLACED, step)


def _timer_key(context: BeatContext, intent: OpenIntent) -> Generator[Need, None, str | None]:
    if intent.kind != TIMER_SET:
        return None
    try:
        params: Any = decode_trusted((yield from context.value_of(intent.extras["params"])))
    except Gone:
        return None
    key: str | None = params.get("key")
    return key


def _of_entry(context: BeatContext, slot: Slot, origin: Origin) -> Generator[Need, None, Found]:
    """The cell's open intents; of a cell with a whole map, those of the entry whose step it is."""
    every = yield from _intents(context, slot, context.ledger.intents_of(slot))
    return [each for each in every if each[1].extras.get("entry", b"") == origin.entry]


def _intents(context: BeatContext, slot: Slot, heights: Sequence[int]) -> Generator[Need, None, Found]:
    book, found = context.ledger.book, []
    yield from book.expect(heights)
    for height in heights:
        intent = yield from book.find(height)
        if intent is None:
            raise Corrupted(
                "kernel.intent_missing", "cell {module} {key} waits for intent {height}, which is not open",
                module=slot.cells.base, key=slot.key, height=height,
            )  # fmt: skip
        found.append((height, intent))
    return found


def _settle(
    context: BeatContext, slot: Slot, origin: Origin, found: Found, status: Settled,
    why: settling.Settlement, extra: dict[str, Any],
) -> Generator[Need, None, None]:  # fmt: skip
    # one may wait for the receipt of another of the same cell: those who wait go first
    for height, intent in sorted(found, key=lambda each: each[1].status != WAITING):
        if intent.status == OPEN:
            context.close(intent.id, height)
        depth = {"depth": origin.depth + 1}
        yield from settling.settle(
            context, slot, height, intent, status, None, why, NEXT_BEAT, {**depth, **extra}
        )
