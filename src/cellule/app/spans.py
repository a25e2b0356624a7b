"""Times and durations that authors give, as nanoseconds; what is none is refused with the option's name."""

from __future__ import annotations

from datetime import datetime, timedelta

from cellule.app.declarations import bad_option
from cellule.values.schema.scalars import EPOCH, MICROSECOND


def duration_ns(where: str, option: str, given: object, *, least: int = 1) -> int:
    """A timedelta in nanoseconds, of at least so many."""
    if not isinstance(given, timedelta):
        raise bad_option(where, option, given, "a timedelta, such as timedelta(hours=1)")
    found = given // MICROSECOND * 1_000
    if found < least:
        raise bad_option(
            where, option, given, "a timedelta that is not negative" if least == 0 else "a longer one"
        )
    return found


def time_ns(where: str, option: str, given: object) -> int:
    """An aware datetime in nanoseconds since 1970."""
    if not isinstance(given, datetime):
        raise bad_option(where, option, given, "a datetime with its time zone")
    if given.tzinfo is None:
        raise bad_option(where, option, given, "a datetime with its time zone: datetime(..., tzinfo=UTC)")
    return (given - EPOCH) // MICROSECOND * 1_000
