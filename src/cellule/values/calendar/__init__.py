"""When schedules are due: cron lines in time zones, and intervals. Pure: the time is always an argument.

A schedule answers one question, `next_due(after_ns)`; `due_between` and `preview` ask it repeatedly. Times
are integer nanoseconds since the Unix epoch, UTC.
"""

from __future__ import annotations

from cellule.values.calendar.cron import Cron, compile_schedule
from cellule.values.calendar.due import Due, Upcoming, due_between, preview
from cellule.values.calendar.every import Every
from cellule.values.calendar.zones import zone_named

__all__ = ["Cron", "Due", "Every", "Upcoming", "compile_schedule", "due_between", "preview", "zone_named"]
