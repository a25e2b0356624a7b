"""Retention: cells that the kernel removes by itself, by timers in an index.

A module may state `ttl_ns` (since birth) and `idle_ns` (since the last step). Each arms one timer at the
cell's birth; an idle timer is re-armed lazily, only when it is due. A cell with messages or open intents is
never removed: its timer comes back later. Timer keys are (due_ns, height of the record that armed it).

The index of timers holds those of intents and schedules, too (`TimerRow`).
"""

from __future__ import annotations

from collections.abc import Generator

from cellule.kernel.decide import schedules
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.journal.fields import RetentionTimer
from cellule.kernel.journal.records import ExpiredRecord, TimerRecord
from cellule.kernel.limits import FRAME_BYTES_ADMIT, TIMERS_PER_BEAT_MAX
from cellule.kernel.need import Need
from cellule.kernel.state import step_changes
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import TimerRow

_OF_INTENTS = ("intent", "approval", "outside")
RETRY_NS = 60_000_000_000  # a cell that is busy when its time is over is looked at again after this


def arm(context: BeatContext, slot: Slot, cause: int) -> None:
    """Arm the timers of a cell just born."""
    module = context.eras.current.manifest.modules.get(slot.cells.base)
    if module is None:
        return
    retention = module.retention
    for what, period in (("ttl", retention.ttl_ns), ("idle", retention.idle_ns)):
        if period is not None:
            timer = TimerRow(what, slot.cells.base, slot.key, cause)
            _write(context, cause, None, context.ledger.now_ns + period, timer)


def run_due(context: BeatContext) -> Generator[Need, None, list[schedules.Due]]:
    """Handle the timers that are due, oldest first; returns the schedules whose events are to be sent."""
    ledger, writer = context.ledger, context.writer
    due: list[schedules.Due] = []
    if not ledger.has_timers():
        return due
    page = yield from ledger.timers.scan(b"", pair_key(ledger.now_ns + 1, 0), TIMERS_PER_BEAT_MAX)
    yield from ledger.slots((timer.module, timer.key) for _, timer in page if timer.what != "schedule")
    yield from ledger.book.expect(timer.number for _, timer in page if timer.what in _OF_INTENTS)
    room = FRAME_BYTES_ADMIT  # for the events of schedules, which are sent behind all timers
    for key, timer in page:
        if writer.is_full() or room <= 0:
            break
        match timer.what:
            case "intent" | "approval" | "outside":
                yield from settling.fire(context, key, timer)
            case "schedule":
                fired = schedules.fire(context, key, timer, room)
                if fired is not None:
                    due.append(fired)
                    room -= len(fired.due_ns) * schedules.event_bytes(fired.schedule)
            case _:
                _fire(context, key, timer)
    return due


def next_due(ledger: Ledger) -> Generator[Need, None, int | None]:
    """When the earliest timer is due."""
    if not ledger.has_timers():
        return None
    first = yield from ledger.timers.first()
    return None if first is None else pair_of(first[0])[0]


def _fire(context: BeatContext, fired: bytes, timer: TimerRow) -> None:
    ledger, writer = context.ledger, context.writer
    what, base, key, born = timer
    slot = ledger.cells(base).slot(key)
    entry = slot.entry
    cause = pair_of(fired)[1]
    module = context.eras.current.manifest.modules.get(base)
    period = None
    if module is not None:
        period = module.retention.ttl_ns if what == "ttl" else module.retention.idle_ns
    if entry is None or not entry.is_life(born) or period is None:
        _write(context, cause, fired, 0, None)
        return
    due_ns = entry.active_ns + period if what == "idle" else 0
    if slot.queue or slot.stopped or ledger.has_intents(slot):
        due_ns = max(due_ns, ledger.now_ns + min(period, RETRY_NS))
    if due_ns > ledger.now_ns:
        _write(context, cause, fired, due_ns, timer)
        return
    writer.add(ExpiredRecord(cause, fired, base, key, born), len(key))
    step_changes.expire(ledger, slot, fired)


def _write(
    context: BeatContext, cause: int, fired: bytes | None, due_ns: int, timer: TimerRow | None
) -> None:
    """Record that a timer is armed, re-armed or (due 0) dropped, and make it so."""
    what = None if timer is None else RetentionTimer(*timer)
    height = context.writer.add(TimerRecord(cause, fired, due_ns, what), 0)
    context.ledger.arm(fired, due_ns, height, timer)
