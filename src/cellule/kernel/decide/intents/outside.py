"""Intents that somebody outside completes: the adapter has begun the work, and hands the end of it over.

An adapter says so by a receipt of status `outside`, whose value is for how long. The intent stays open,
without row in the outbox; its time is a timer of the world, and any receipt settles it.

Rejected: a row of the outbox that waits. A repair would have to know of it, and so would every attempt.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from cellule.errors import CelluleError
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import life
from cellule.kernel.items import Admitted, Outcome, ReceiptItem
from cellule.kernel.journal.codes import OUTSIDE
from cellule.kernel.journal.records import DecisionExtras, DecisionRecord
from cellule.kernel.limits import OUTSIDE_NS_MAX
from cellule.kernel.need import Need
from cellule.kernel.state import intent_changes as applying
from cellule.kernel.state.rows import OpenIntent
from cellule.values.cbor import decode

OUTSIDE_ITEM: Final = "outside"
"""The status by which an adapter says that somebody outside completes the intent."""


def hold(
    context: BeatContext, item: ReceiptItem, intent: OpenIntent
) -> Generator[Need, None, Outcome]:  # fmt: skip
    """The adapter has done its part: the intent waits to be completed from outside, for a time."""
    extras: DecisionExtras = {"due_ns": _until_ns(item, context.ledger.now_ns)}
    if item.by:
        extras["by"] = item.by
    if item.attempts:
        extras["attempts"] = item.attempts
    if context.is_below(intent):
        extras["under"] = True
    at = context.writer.add(DecisionRecord(item.height, OUTSIDE, extras))
    applying.held_outside(context.ledger, item.height, intent, extras)
    yield from life.waits(context, at, intent, "somebody outside completes it")
    return Admitted(at)


def _until_ns(item: ReceiptItem, now_ns: int) -> int:
    """When the wait ends: the item's value is a time from now, in nanoseconds."""
    try:
        after_ns: Any = decode(item.value or b"")
    except CelluleError:
        after_ns = None
    wait_ns: int = after_ns if type(after_ns) is int else 0
    return now_ns + max(0, min(wait_ns, OUTSIDE_NS_MAX))
