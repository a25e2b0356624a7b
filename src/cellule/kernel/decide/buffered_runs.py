"""Runs of schedules with `overlap: buffer` that wait until their cells are idle; at most one of each.

Nothing looks for them by the clock: a cell gets idle in a beat, by its step, a receipt or a person. That beat
tells the host that there is more to do, and the next one sends the event, before what is due in it.
"""

from __future__ import annotations

from collections.abc import Generator

from cellule.kernel.decide import schedules
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.limits import FRAME_BYTES_CLOSE
from cellule.kernel.manifest.model import Schedule
from cellule.kernel.need import Need


def send_idle(context: BeatContext) -> Generator[Need, None, None]:
    """Send the runs whose cells are idle, as far as the frame has room."""
    for schedule in _waiting(context):
        if context.writer.size + schedules.event_bytes(schedule) > FRAME_BYTES_CLOSE:
            return
        if not (yield from schedules.is_busy(context, schedule)):
            due_ns = context.ledger.book.schedules[schedule.name].waiting_ns
            height = yield from schedules.record_waiting(context, schedule.name, 0)
            yield from schedules.send(context, schedules.Due(height, schedule, [due_ns]), always=True)


def has_idle(context: BeatContext) -> Generator[Need, None, bool]:
    """Tell whether a run waits that the next beat can send."""
    for schedule in _waiting(context):
        if not (yield from schedules.is_busy(context, schedule)):
            return True
    return False


def _waiting(context: BeatContext) -> list[Schedule]:
    wanted = context.eras.current.manifest.schedules
    return [wanted[name] for name in sorted(context.ledger.book.waiting) if name in wanted]
