"""Schedules: events that the kernel sends by the calendar or at an interval.

Each schedule has one timer, armed for its next due time; that time is computed once and recorded, so a
restore needs no calendar. When it is due the Timer record arms the next one, and after what the previous
beat emitted the event is delivered, with that record as its cause. What was missed while nothing ran is
caught up as the schedule says: `skip` sends only the run that is due now, `once` one event for all, and
`backfill` one each, the oldest `limit` of them, over as many beats as their frames need. `overlap: skip`
sends nothing while a target still has messages or open intents; `overlap: buffer` keeps one such run, which
waits until all targets are idle (`buffered_runs.py`). A Timer record says that a run waits, and another that
it waits no more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from hashlib import sha256
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.index.keys import pair_of, pairs_from
from cellule.kernel.items import Admitted, ControlItem
from cellule.kernel.journal.fields import ScheduleTimer
from cellule.kernel.journal.records import EventRecord, RefusedRecord, TimerRecord
from cellule.kernel.journal.writer import RECORD_BYTES
from cellule.kernel.limits import FRAME_BYTES_ADMIT, QUEUE_MESSAGES_MAX
from cellule.kernel.manifest.limits import BACKFILL_MAX, KEY_BYTES_MAX
from cellule.kernel.manifest.model import Schedule
from cellule.kernel.need import Need
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.state.rows import ScheduleRow, TimerRow
from cellule.values import calendar
from cellule.values.cbor import encode
from cellule.values.cid import cid_of

FINGERPRINT_BYTES: Final = 16
TIMERS_PAGE = 1_000  # timers read at once


class Due(NamedTuple):
    """A schedule whose time has come: the Timer record's height, and the due times to send an event for."""

    cause: int
    schedule: Schedule
    due_ns: list[int]


def fingerprint(schedule: Schedule) -> bytes:
    """What tells one version of a schedule from another: when it is due, not what it sends."""
    when: list[Any] = [schedule.cron, schedule.zone, schedule.every_ns, schedule.start_ns]
    if schedule.jitter_ns is not None:
        when.append(schedule.jitter_ns)
    return cid_of(encode(when)).digest[:FINGERPRINT_BYTES]


def align(context: BeatContext, cause: int) -> Generator[Need, None, None]:
    """Arm what the current manifest schedules, and drop what it no longer does."""
    known, wanted = context.ledger.book.schedules, context.eras.current.manifest.schedules
    if not known and not wanted:
        return
    for name in sorted({*known, *wanted}):
        row, schedule = known.get(name), wanted.get(name)
        stamp = b"" if schedule is None else fingerprint(schedule)
        if row is not None and row.fingerprint == stamp:
            continue
        armed = None if row is None else (yield from _armed(context, name))
        paused = row is not None and row.paused and schedule is not None
        due_ns = 0 if schedule is None or paused else _next(context, schedule)
        _write(context, cause, armed, due_ns, name, stamp, paused=paused)


def next_due(schedule: Schedule, after_ns: int) -> int:
    """When a schedule is next due, strictly after a time; 0 = never."""
    if schedule.cron is not None:
        return calendar.Cron.parse(schedule.cron, schedule.zone).next_due(after_ns) or 0
    assert schedule.every_ns is not None
    return calendar.Every(schedule.every_ns, schedule.start_ns or 0).next_due(after_ns) or 0


def last_due(schedule: Schedule, after_ns: int, until_ns: int) -> int:
    """The newest due time up to `until_ns`, where at least one comes after `after_ns`.

    Found by halving: a schedule that was away for long has too many times to count.
    """
    early, late = (
        after_ns,
        until_ns,
    )  # something is due between the first and `until_ns`, nothing after the last
    while late - early > 1:
        middle = (early + late) // 2
        following = next_due(schedule, middle)
        if following and following <= until_ns:
            early = middle
        else:
            late = middle
    return next_due(schedule, early)


def _next(context: BeatContext, schedule: Schedule) -> int:
    """When a schedule is due after now, with its jitter; 0 = never."""
    due_ns = next_due(schedule, context.ledger.now_ns)
    return due_ns + _jitter_ns(context, schedule, due_ns) if due_ns else 0


def _jitter_ns(context: BeatContext, schedule: Schedule, due_ns: int) -> int:
    """By how much a due time is put off: drawn from the frame's entropy when it is armed, and recorded."""
    if schedule.jitter_ns is None:
        return 0
    drawn = sha256(context.entropy + encode([schedule.name, due_ns])).digest()[:8]
    return int.from_bytes(drawn, "big") % (schedule.jitter_ns + 1)


def fire(context: BeatContext, fired: bytes, timer: TimerRow, room: int) -> Due | None:
    """A schedule's timer is due: arm the next, and say what is to be sent in this beat, in so many bytes."""
    name, stamp = timer.module, timer.key
    now_ns, schedule = context.ledger.now_ns, context.eras.current.manifest.schedules.get(name)
    due_ns, cause = pair_of(fired)
    if schedule is None or fingerprint(schedule) != stamp:
        return None  # another release armed it: all schedules are aligned later in this beat
    waiting_ns = context.ledger.book.schedules[name].waiting_ns
    times, following, made_up = _times(schedule, due_ns, now_ns, timer.number, room // event_bytes(schedule))
    if following > now_ns:
        following += _jitter_ns(context, schedule, following)
    at = _write(context, cause, fired, following, name, stamp, made_up=made_up, waiting_ns=waiting_ns)
    return Due(at, schedule, times)


def event_bytes(schedule: Schedule) -> int:
    """About how many bytes of a frame one event of a schedule takes."""
    return RECORD_BYTES + KEY_BYTES_MAX + len(schedule.value)


def _times(
    schedule: Schedule, due_ns: int, now_ns: int, made_up: int, room: int
) -> tuple[list[int], int, int]:
    """The due times to send for in this beat, the next one, and how many a backfill that goes on has sent.

    A frame has room for so many; the next is then armed for a time that has passed, and is due in the next
    beat.
    """
    following = next_due(schedule, due_ns)
    if not made_up and (not following or following > now_ns):
        return [due_ns], following, 0
    if schedule.catch_up == "skip":
        return [last_due(schedule, due_ns, now_ns)], next_due(schedule, now_ns), 0
    times = [due_ns]
    most = schedule.limit - made_up if schedule.catch_up == "backfill" else 0
    while following and following <= now_ns and len(times) < most:
        if len(times) >= room:
            return times, following, made_up + len(times)
        times.append(following)
        following = next_due(schedule, following)
    return times, next_due(schedule, now_ns), 0


def send(context: BeatContext, due: Due, *, always: bool = False) -> Generator[Need, None, None]:
    """Deliver the events of a due schedule; `always` even where its target is busy."""
    schedule = due.schedule
    targets = context.eras.current.router.reachable(schedule.event, schedule.value, schedule.key)
    yield from context.ledger.slots(targets)
    for due_ns in due.due_ns:
        slots = [context.ledger.cells(base).slot(key) for base, key in targets]
        if not always and schedule.overlap != "allow" and _are_busy(context, slots):
            if schedule.overlap == "buffer" and schedule.name not in context.ledger.book.waiting:
                yield from record_waiting(context, schedule.name, due_ns)
            return
        writer = context.writer
        event_id = f"schedule:{schedule.name}:{due_ns}"
        if any(len(slot.queue) >= QUEUE_MESSAGES_MAX for slot in slots):
            text = f"a cell of the schedule has {QUEUE_MESSAGES_MAX} messages already"
            refused = RefusedRecord(due.cause, event_id, schedule.event, "kernel.queue_full", text)
            writer.add(refused)
            continue
        record = EventRecord(due.cause, event_id, schedule.event, writer.value(schedule.value), targets, {})
        height = writer.add(record)
        message = Message(height, EVENT_MESSAGE, schedule.event, schedule.value, 0, None)
        for slot in slots:
            context.ledger.deliver(slot, message)


def is_busy(context: BeatContext, schedule: Schedule) -> Generator[Need, None, bool]:
    """Tell whether a target of a schedule has messages or open intents."""
    targets = context.eras.current.router.reachable(schedule.event, schedule.value, schedule.key)
    yield from context.ledger.slots(targets)
    return _are_busy(context, [context.ledger.cells(base).slot(key) for base, key in targets])


def _are_busy(context: BeatContext, slots: Iterable[Slot]) -> bool:
    return any(slot.queue or context.ledger.has_intents(slot) for slot in slots)


def record_waiting(context: BeatContext, name: str, waiting_ns: int) -> Generator[Need, None, int]:
    """Record that a run of a schedule waits, or (0) that none does; it stays armed as it is."""
    row, armed = context.ledger.book.schedules[name], (yield from _armed(context, name))
    timer = None if armed is None else (yield from context.ledger.timers.get(armed))
    return _write(
        context, 0 if armed is None else pair_of(armed)[1], armed, row.due_ns, name, row.fingerprint,
        paused=row.paused, made_up=0 if timer is None else timer.number, waiting_ns=waiting_ns,
    )  # fmt: skip


def pause(context: BeatContext, item: ControlItem, admitted: Admitted) -> Generator[Need, None, None]:
    """Pause or resume a schedule; the Control record is written."""
    name = item.arguments["name"]
    schedule = context.eras.current.manifest.schedules[name]
    armed = yield from _armed(context, name)
    paused = item.verb == "schedule.pause"
    due_ns = 0 if paused else _next(context, schedule)
    _write(context, admitted.height, armed, due_ns, name, fingerprint(schedule), paused=paused)


def trigger(
    context: BeatContext, item: ControlItem, record: Callable[[dict[str, Any]], Admitted]
) -> Generator[Need, None, Admitted]:
    """Send the event of a schedule once more now, or for every due time of a range, whatever else it does."""
    schedule = _known(context, item)
    times, done = [context.ledger.now_ns], {}
    if item.verb == "schedule.backfill":
        times, left = _range(context, schedule, item)
        done = {"sent": len(times), **({"more": left} if left else {})}
    yield from _check_room(context, schedule, len(times))
    admitted = record(done)
    yield from send(context, Due(admitted.height, schedule, times), always=True)
    return admitted


def _check_room(context: BeatContext, schedule: Schedule, count: int) -> Generator[Need, None, None]:
    """Refuse what would not all find room at its cells: a person hears of it, and nothing is sent."""
    targets = context.eras.current.router.reachable(schedule.event, schedule.value, schedule.key)
    yield from context.ledger.slots(targets)
    for base, key in targets:
        waiting = len(context.ledger.cells(base).slot(key).queue)
        if waiting + count > QUEUE_MESSAGES_MAX:
            raise Rejected(
                "kernel.queue_full", "{count} messages wait at cell {module}/{key}: {sent} more have no room",
                count=waiting, module=base, key=key, sent=count, hint="Find out why the cell does not step.",
            )  # fmt: skip


def _range(context: BeatContext, schedule: Schedule, item: ControlItem) -> tuple[list[int], int]:
    """The due times of a range that this frame has room for, and the first one that is left, or 0."""
    first_ns, last_ns = (item.arguments.get(name) for name in ("from_ns", "to_ns"))
    if type(first_ns) is not int or type(last_ns) is not int or not 0 < first_ns <= last_ns:
        raise Rejected(
            "kernel.argument", "{verb} needs from_ns and to_ns, two times in their order", verb=item.verb
        )
    if last_ns > context.ledger.now_ns:
        raise Rejected("kernel.argument", "{verb} is for the past: to_ns has not come", verb=item.verb)
    room = max(1, (FRAME_BYTES_ADMIT - context.writer.size) // event_bytes(schedule))
    times: list[int] = []
    due_ns = next_due(schedule, first_ns - 1)
    while due_ns and due_ns <= last_ns:
        if len(times) >= min(room, BACKFILL_MAX):
            return times, due_ns
        times.append(due_ns)
        due_ns = next_due(schedule, due_ns)
    return times, 0


def check_pause(context: BeatContext, item: ControlItem) -> None:
    """Refuse to pause what is not there, or is paused already."""
    name = _known(context, item).name
    row = context.ledger.book.schedules.get(name)
    is_paused = row is not None and row.paused
    if is_paused == (item.verb == "schedule.pause"):
        state = "paused already" if is_paused else "not paused"
        raise Rejected("kernel.schedule_state", "schedule {name} is {state}", name=name, state=state)


def _known(context: BeatContext, item: ControlItem) -> Schedule:
    """The schedule that a verb names; one that is new in this beat may have no row yet."""
    name, wanted = item.arguments.get("name"), context.eras.current.manifest.schedules
    if not isinstance(name, str) or name not in wanted:
        raise Rejected(
            "kernel.schedule_unknown", "there is no schedule {name!r}; there are: {known}",
            name=name, known=", ".join(sorted(wanted)) or "none",
        )  # fmt: skip
    return wanted[name]


def _armed(context: BeatContext, name: str) -> Generator[Need, None, bytes | None]:
    """The key of a schedule's timer, if it is armed."""
    row = context.ledger.book.schedules.get(name)
    if row is None or not row.due_ns:
        return None
    begin, end = pairs_from(row.due_ns)
    while True:
        page = yield from context.ledger.timers.scan(begin, end, TIMERS_PAGE)
        for key, timer in page:
            if timer.what == "schedule" and timer.module == name:
                return key
        if len(page) < TIMERS_PAGE:
            return None
        begin = page[-1][0] + b"\0"


def _write(
    context: BeatContext,
    cause: int,
    fired: bytes | None,
    due_ns: int,
    name: str,
    stamp: bytes,
    *,
    paused: bool = False,
    made_up: int = 0,
    waiting_ns: int = 0,
) -> int:
    record = TimerRecord(cause, fired, due_ns, ScheduleTimer(name, stamp, paused, made_up, waiting_ns))
    height = context.writer.add(record)
    row = ScheduleRow(stamp, due_ns, paused, waiting_ns) if stamp else None
    context.ledger.schedule(name, row, fired, height, made_up)
    return height
