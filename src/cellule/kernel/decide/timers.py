"""Retention: cells that the kernel removes by itself, by timers in an index.

A module may state `ttl_ns` (since birth) and `idle_ns` (since the last step). Each arms one timer at the
cell's birth; when it is due the retention of the current manifest decides, and it may be armed again. A cell
with messages or open intents is never removed: its timer comes back later. Timer keys are (due_ns, height of
the record that armed it).

A deploy that adds a retention, or makes one shorter, starts a sweep: a timer of the module that arms those of
the cells born before, some in each beat. A cell may then have two timers of one kind; they are due together
when they are armed again, and only the first of them is.

The index of timers holds those of intents and schedules, too (`TimerRow`).
"""

from __future__ import annotations

from collections.abc import Generator

from cellule.kernel.decide import schedules
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import fire as firing
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.journal.fields import RetentionTimer
from cellule.kernel.journal.records import ExpiredRecord, TimerRecord
from cellule.kernel.limits import (
    FRAME_BYTES_ADMIT,
    FRAME_BYTES_CLOSE,
    SWEEP_CELLS_MAX,
    TIMERS_PER_BEAT_MAX,
)
from cellule.kernel.manifest.model import Manifest, Retention
from cellule.kernel.need import Need
from cellule.kernel.state import step_changes
from cellule.kernel.state.cell_pages import page_of_cells
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


def sweep(context: BeatContext, before: Manifest, now: Manifest, deployed: int) -> None:
    """Begin to arm the timers of cells born before a deploy that removes them earlier than the last did."""
    for base in sorted(now.modules):
        module = before.modules.get(base)
        old, new = Retention() if module is None else module.retention, now.modules[base].retention
        if _is_shorter(new.ttl_ns, old.ttl_ns) or _is_shorter(new.idle_ns, old.idle_ns):
            _write(context, deployed, None, context.ledger.now_ns, TimerRow("sweep", base, b"", deployed))


def _is_shorter(new: int | None, old: int | None) -> bool:
    return new is not None and (old is None or new < old)


def run_due(context: BeatContext) -> Generator[Need, None, list[schedules.Due]]:
    """Handle the timers that are due, oldest first; returns the schedules whose events are to be sent."""
    ledger, writer = context.ledger, context.writer
    due: list[schedules.Due] = []
    page = yield from ledger.timers.scan(b"", pair_key(ledger.now_ns + 1, 0), TIMERS_PER_BEAT_MAX)
    apart = ("schedule", "sweep", "answer")
    yield from ledger.slots((timer.module, timer.key) for _, timer in page if timer.what not in apart)
    yield from ledger.book.expect(timer.number for _, timer in page if timer.what in _OF_INTENTS)
    room = FRAME_BYTES_ADMIT  # for the events of schedules, which are sent behind all timers
    armed_again: set[TimerRow] = set()
    sweeps: list[tuple[bytes, TimerRow]] = []
    for key, timer in page:
        if room <= 0 or writer.size + FRAME_BYTES_ADMIT - room >= FRAME_BYTES_CLOSE:
            break
        match timer.what:
            case "intent" | "approval" | "outside":
                yield from firing.fire(context, key, timer)
            case "answer":
                yield from firing.answer(context, key, timer)
            case "schedule":
                fired = schedules.fire(context, key, timer, room)
                if fired is not None:
                    due.append(fired)
                    room -= len(fired.due_ns) * schedules.event_bytes(fired.schedule)
            case "sweep":
                sweeps.append((key, timer))
            case _:
                _fire(context, key, timer, armed_again)
    for key, timer in sweeps:  # last: what they arm did not fire, and a replay delivers messages before it
        if not writer.is_full():
            yield from _sweep(context, key, timer)
    return due


def next_due(ledger: Ledger) -> Generator[Need, None, int | None]:
    """When the earliest timer is due."""
    if not ledger.has_timers():
        return None
    first = yield from ledger.timers.first()
    return None if first is None else pair_of(first[0])[0]


def _fire(context: BeatContext, fired: bytes, timer: TimerRow, armed_again: set[TimerRow]) -> None:
    ledger, writer = context.ledger, context.writer
    what, base, key, born = timer
    slot = ledger.cells(base).slot(key)
    entry = slot.entry
    cause = pair_of(fired)[1]
    module = context.eras.current.manifest.modules.get(base)
    period = None
    if module is not None:
        period = module.retention.ttl_ns if what == "ttl" else module.retention.idle_ns
    if entry is None or not entry.is_life(born) or period is None or timer in armed_again:
        _write(context, cause, fired, 0, None)
        return
    due_ns = period + (entry.active_ns if what == "idle" else entry.born_ns)
    is_busy = slot.queue or slot.stopped or ledger.has_intents(slot) or entry.get("calls")
    if is_busy or base in ledger.moves:
        due_ns = max(due_ns, ledger.now_ns + min(period, RETRY_NS))
    if due_ns > ledger.now_ns:
        _write(context, cause, fired, due_ns, timer)
        armed_again.add(timer)
        return
    writer.add(ExpiredRecord(cause, fired, base, key, born))
    step_changes.expire(ledger, slot, fired)


def _sweep(context: BeatContext, fired: bytes, timer: TimerRow) -> Generator[Need, None, None]:
    """Arm the timers of a module's next cells, by the retention it has now."""
    ledger, cause = context.ledger, pair_of(fired)[1]
    _, base, begin, deployed = timer
    module = context.eras.current.manifest.modules.get(base)
    page = yield from page_of_cells(ledger, base, begin, None, SWEEP_CELLS_MAX, with_states=False)
    if page.next is None or module is None:
        _write(context, cause, fired, 0, None)
    else:
        _write(context, cause, fired, ledger.now_ns, TimerRow("sweep", base, page.next, deployed))
    slots = ledger.cells(base).slots
    for key, resting in page.entries:
        entry = slots[key].entry if key in slots and slots[key].loaded else resting
        if module is None or entry is None or entry.state is None or entry.born > deployed:
            continue
        retention = module.retention
        since = (("ttl", retention.ttl_ns, entry.born_ns), ("idle", retention.idle_ns, entry.active_ns))
        for what, period, start_ns in since:
            if period is not None:
                due_ns = max(start_ns + period, ledger.now_ns)
                _write(context, cause, None, due_ns, TimerRow(what, base, key, entry.born))


def _write(
    context: BeatContext, cause: int, fired: bytes | None, due_ns: int, timer: TimerRow | None
) -> None:
    """Record that a timer is armed, re-armed or (due 0) dropped, and make it so."""
    what = None if timer is None else RetentionTimer(*timer)
    height = context.writer.add(TimerRecord(cause, fired, due_ns, what))
    context.ledger.arm(fired, due_ns, height, timer)
