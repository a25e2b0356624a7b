"""`Due`, the contract of schedules, and what can be asked of every one of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple, Protocol

SECOND_NS: Final = 1_000_000_000
DUE_NS_MAX: Final = (1 << 63) - 1
"""Latest moment that can be due, in the year 2262."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Due(Protocol):
    """A schedule: a fixed, possibly endless series of moments."""

    @property
    def zone(self) -> tzinfo:
        """The zone in which people think of it."""

    def next_due(self, after_ns: int) -> int | None:
        """The first moment strictly after `after_ns`; None if there is none."""


class Upcoming(NamedTuple):
    """A due moment, and how a clock on the wall of its zone shows it: `2026-03-29T03:00:00+02:00`."""

    due_ns: int
    local: str


def due_between(schedule: Due, after_ns: int, until_ns: int, limit: int) -> list[int]:
    """The first `limit` moments after `after_ns`, up to and including `until_ns`."""
    found: list[int] = []
    due_ns = schedule.next_due(after_ns)
    while due_ns is not None and due_ns <= until_ns and len(found) < limit:
        found.append(due_ns)
        due_ns = schedule.next_due(due_ns)
    return found


def preview(schedule: Due, after_ns: int, count: int) -> list[Upcoming]:
    """The next `count` moments, with their local times."""
    moments = due_between(schedule, after_ns, DUE_NS_MAX, count)
    return [Upcoming(due_ns, local_time(due_ns, schedule.zone).isoformat()) for due_ns in moments]


def local_time(at_ns: int, zone: tzinfo) -> datetime:
    """The whole second at or before `at_ns`, as the clocks of `zone` show it."""
    return (_EPOCH + timedelta(seconds=at_ns // SECOND_NS)).astimezone(zone)


def nanoseconds(moment: datetime) -> int:
    """The moment as nanoseconds since the epoch; `moment` is aware and has whole seconds."""
    return (moment - _EPOCH) // timedelta(seconds=1) * SECOND_NS
