"""Retention: cells that the kernel removes by itself, by timers in an index.

A module may state `ttl_ns` (since birth) and `idle_ns` (since the last step). Each arms one timer at the
cell's birth; an idle timer is re-armed lazily, only when it is due. A cell with messages or open intents is
never removed: its timer comes back later. Timer keys are (due_ns, height of the record that armed it).

The index of timers holds all kinds: ["ttl" or "idle", module, key, born], and for `intents/`: ["intent" or
"approval", module, key, height of the Intent record] and ["schedule", name, fingerprint, 0].
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cellule.errors import Corrupted
from cellule.kernel.decide import schedules
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Eras
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.journal.fields import RetentionTimer
from cellule.kernel.journal.records import ExpiredRecord, TimerRecord
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.limits import TIMERS_PER_BEAT_MAX
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.snapshot_schema import is_timer

RETRY_NS = 60_000_000_000  # a cell that is busy when its time is over is looked at again after this


def arm(context: BeatContext, slot: Slot, cause: int) -> None:
    """Arm the timers of a cell just born."""
    ledger, writer = context.ledger, context.writer
    module = context.eras.current.manifest.modules.get(slot.cells.base)
    if module is None:
        return
    retention = module.retention
    for what, period in (("ttl", retention.ttl_ns), ("idle", retention.idle_ns)):
        if period is not None:
            _write(
                ledger, writer, cause, None, ledger.now_ns + period, [what, slot.cells.base, slot.key, cause]
            )


def run_due(context: BeatContext) -> Generator[Need, None, list[schedules.Due]]:
    """Handle the timers that are due, oldest first; returns the schedules whose events are to be sent."""
    ledger, writer = context.ledger, context.writer
    due: list[schedules.Due] = []
    if not ledger.has_timers():
        return due
    page = yield from ledger.timers.scan(b"", pair_key(ledger.now_ns + 1, 0), TIMERS_PER_BEAT_MAX)
    for key, value in page:
        if not is_timer(value):
            raise Corrupted(
                "kernel.timer_damaged", "timer {key} is not a timer: {found}", key=key, found=value
            )
    yield from ledger.slots((value[1], value[2]) for _, value in page if value[0] != "schedule")
    yield from ledger.book.expect(value[3] for _, value in page if value[0] in ("intent", "approval"))
    for key, value in page:
        if writer.is_full():
            break
        match value[0]:
            case "intent" | "approval":
                yield from settling.fire(context, key, value)
            case "schedule":
                fired = schedules.fire(context, key, value)
                if fired is not None:
                    due.append(fired)
            case _:
                _fire(ledger, context.eras, writer, key, value)
    return due


def next_due(ledger: Ledger) -> Generator[Need, None, int | None]:
    """When the earliest timer is due."""
    if not ledger.has_timers():
        return None
    first = yield from ledger.timers.first()
    return None if first is None else pair_of(first[0])[0]


def _fire(ledger: Ledger, eras: Eras, writer: FrameWriter, fired: bytes, value: list[Any]) -> None:
    what, base, key, born = value
    slot = ledger.cells(base).slot(key)
    entry = slot.entry
    cause = pair_of(fired)[1]
    module = eras.current.manifest.modules.get(base)
    period = None
    if module is not None:
        period = module.retention.ttl_ns if what == "ttl" else module.retention.idle_ns
    if entry is None or not entry.is_life(born) or period is None:
        _write(ledger, writer, cause, fired, 0, None)
        return
    due_ns = entry.active_ns + period if what == "idle" else 0
    if slot.queue or slot.stopped or ledger.has_intents(slot):
        due_ns = max(due_ns, ledger.now_ns + min(period, RETRY_NS))
    if due_ns > ledger.now_ns:
        _write(ledger, writer, cause, fired, due_ns, value)
        return
    ledger.timers.remove(fired)
    writer.add(ExpiredRecord(cause, fired, base, key, born), len(key))
    ledger.expire(slot)


def _write(
    ledger: Ledger, writer: FrameWriter, cause: int, fired: bytes | None, due_ns: int, value: list[Any] | None
) -> None:
    """Record that a timer is armed, re-armed or (due 0) dropped, and make it so."""
    what = None if value is None else RetentionTimer(*value)
    height = writer.add(TimerRecord(cause, fired, due_ns, what), 0)
    if fired is not None:
        ledger.timers.remove(fired)
    if value is not None:
        ledger.timers.insert(pair_key(due_ns, height), value)
