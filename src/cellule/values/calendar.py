"""When schedules are due: cron lines in time zones, and intervals. Pure: the time is always an argument.

A schedule answers one question, `next_due(after_ns)`; `due_between` and `preview` ask it repeatedly. Times
are integer nanoseconds since the Unix epoch, UTC. Zones come from the package `tzdata`, always.

A cron line with fixed minutes and hours is due once a day that matches: a time that the clocks skip is made
up at the first minute after the gap, and one that they show twice is due the first time only. A line whose
minute or hour begins with `*` follows real time: nothing is made up, and both of two equal times count. If
day of month or day of week begins with `*`, both must match, else either, as in Debian's cron.

Rejected: `cronsim` with a zone. Inside a repeated hour it gives moments that have passed, and where clocks
change by half an hour it loses some. So it only finds matching dates and times; zones are applied here.
Rejected: the operating system's zones, which `zoneinfo` prefers. Two machines of one world would disagree
about the next clock change as soon as one of them is updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from cronsim.cronsim import Field

from cellule.errors import Rejected

SECOND_NS: Final = 1_000_000_000
DUE_NS_MAX: Final = (1 << 63) - 1
"""Latest moment that can be due, in the year 2262."""
GAPS_LOOKED_AT: Final = 500
"""Moments of a schedule among which the shortest pause is looked for: the patterns of a day, at least."""

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


def shortest_gap_ns(schedule: Due) -> int | None:
    """The shortest time between two due moments, of the first few hundred; None where there is but one."""
    moments = due_between(schedule, 0, DUE_NS_MAX, GAPS_LOOKED_AT)
    return min((later - due for due, later in pairwise(moments)), default=None)


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


@dataclass(frozen=True, slots=True)
class Every:
    """Due at `start_ns` and every `period_ns` after it.

    >>> Every(10, 3).next_due(3), Every(10, 3).next_due(-100)
    (13, 3)
    """

    period_ns: int
    start_ns: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.period_ns <= DUE_NS_MAX:
            raise Rejected(
                "values.interval_invalid", "An interval of {period_ns} ns cannot repeat.",
                period_ns=self.period_ns, hint="Give a positive number of nanoseconds.",
            )  # fmt: skip

    @property
    def zone(self) -> tzinfo:
        """Always UTC: an interval belongs to no place."""
        return UTC

    def next_due(self, after_ns: int) -> int | None:
        """The first moment strictly after `after_ns`; None beyond the year 2262."""
        if after_ns < self.start_ns:
            due_ns = self.start_ns
        else:
            due_ns = after_ns + self.period_ns - (after_ns - self.start_ns) % self.period_ns
        return due_ns if due_ns <= DUE_NS_MAX else None


_NAME_CHARS_MAX: Final = 64
_SUGGESTIONS_MAX: Final = 3


@lru_cache(maxsize=64)
def zone_named(name: str) -> tzinfo:
    """Return the zone `name`, such as `Europe/Berlin`; raises `values.zone_unknown` with names like it."""
    if name == "UTC":
        return UTC
    if name not in _names():
        raise _unknown(name)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


def _unknown(name: str) -> Rejected:
    shown = name[:_NAME_CHARS_MAX]
    by_lower = {known.lower(): known for known in sorted(_names())}
    by_city = {known.rsplit("/", 1)[-1].lower(): known for known in sorted(_names())}
    wanted = shown.lower().replace(" ", "_")
    alike = [by_lower[match] for match in get_close_matches(wanted, by_lower, _SUGGESTIONS_MAX, 0.7)]
    alike += [by_city[match] for match in get_close_matches(wanted, by_city, _SUGGESTIONS_MAX, 0.8)]
    suggestions = " or ".join(dict.fromkeys(alike[:_SUGGESTIONS_MAX]))
    return Rejected(
        "values.zone_unknown", "There is no time zone {zone!r}.", zone=shown,
        hint=f"Did you mean {suggestions}?" if suggestions else "Zones are named like Europe/Berlin, or UTC.",
    )  # fmt: skip


TEXT_CHARS_MAX: Final = 1_000

_NOTHING: Final = timedelta(0)
_CHANGE_SECONDS_MAX: Final = 3 * 3_600  # no clock since 1970 was put back further

_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = (
    ("minute", Field.MINUTE, "0 to 59"),
    ("hour", Field.HOUR, "0 to 23"),
    ("day of month", Field.DAY, "1 to 31, L for the last day or LW for the last weekday"),
    ("month", Field.MONTH, "1 to 12 or JAN to DEC"),
    (
        "day of week",
        Field.DOW,
        "0 to 7 (0 and 7 are Sunday) or SUN to SAT, 5#3 for the third Friday, 5L for the last",
    ),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A checked cron line; make one with `Cron.parse`."""

    text: str
    zone: tzinfo
    line: str
    """The five fields that `text` means, which may be a shorthand such as `@daily`."""

    @staticmethod
    def parse(text: str, zone: str = "UTC") -> Cron:
        """Check the line and the zone; raises `Rejected` naming the field that is wrong.

        >>> Cron.parse("30 9 * * MON-FRI", "Europe/Berlin").next_due(1_767_225_600_000_000_000)
        1767256200000000000
        """
        return _parsed(text, zone)

    def next_due(self, after_ns: int) -> int | None:
        """The first moment strictly after `after_ns`; None if 50 years have none, or beyond the year 2262."""
        best: int | None = None
        for local in CronSim(self.line, self._start(after_ns)):
            change, moments = self._moments(local)
            later = [due_ns for due_ns in moments if due_ns > after_ns]
            best = min([*later, best] if best is not None else later, default=None)
            # Of a repeated time the second moment may be found before the first one of a later time.
            if best is not None and change != "skipped" and moments[0] >= best:
                break
        return best if best is not None and best <= DUE_NS_MAX else None

    @property
    def follows_real_time(self) -> bool:
        """Whether the minute or the hour begins with `*`."""
        minute, hour, *_ = self.line.split()
        return minute.startswith("*") or hour.startswith("*")

    def _start(self, after_ns: int) -> datetime:
        """The local time to look from: earlier, if clocks are about to be put back over the present time."""
        now = local_time(after_ns, self.zone)
        soon = local_time(after_ns + _CHANGE_SECONDS_MAX * SECOND_NS, self.zone)
        back = (now.utcoffset() or _NOTHING) - (soon.utcoffset() or _NOTHING)
        return now.replace(tzinfo=None) - max(back, _NOTHING)

    def _moments(self, local: datetime) -> tuple[str, list[int]]:
        """What the clocks do to a local time, and the moments at which it is due."""
        first, second = (local.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        offsets = [moment.utcoffset() or _NOTHING for moment in (first, second)]
        if offsets[0] < offsets[1]:
            return "skipped", [] if self.follows_real_time else [self._after_gap(local)]
        if offsets[0] > offsets[1] and self.follows_real_time:
            return "repeated", [nanoseconds(first), nanoseconds(second)]
        return "plain", [nanoseconds(first)]

    def _after_gap(self, local: datetime) -> int:
        while True:
            local += timedelta(minutes=1)
            before, after = (local.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
            if before.utcoffset() == after.utcoffset():
                return nanoseconds(after)


def compile_schedule(cron: str, zone: str) -> Cron:
    """Check a cron line and its zone; the same as `Cron.parse`."""
    return Cron.parse(cron, zone)


@lru_cache(maxsize=256)
def _parsed(text: str, zone: str) -> Cron:
    cron = Cron(text, zone_named(zone), _line(text))
    if not _is_ever_due(cron):
        raise Rejected(
            "values.cron_never", "The cron line {text!r} is never due.", text=text,
            hint="Look at day of month and month: no such day exists.",
        )  # fmt: skip
    return cron


def _is_ever_due(cron: Cron) -> bool:
    try:
        return cron.next_due(0) is not None
    except CronSimError:  # cronsim looks for days that no month has
        return False


def _line(text: str) -> str:
    if len(text) > TEXT_CHARS_MAX:
        raise _wrong_shape(text, "is too long")
    stripped = text.strip()
    if stripped.startswith("@"):
        return _alias(stripped)
    parts = stripped.split()
    if len(parts) != len(_FIELDS):
        raise _wrong_shape(text, f"has {len(parts)} fields")
    for part, (name, field, allowed) in zip(parts, _FIELDS, strict=True):
        _check_field(text, part, name, field, allowed)
    return " ".join(parts)


def _alias(text: str) -> str:
    line = _ALIASES.get(text.lower())
    if line is None:
        raise Rejected(
            "values.cron_alias", "There is no shorthand {text!r}.", text=text,
            hint=f"The shorthands are: {', '.join(_ALIASES)}.",
        )  # fmt: skip
    return line


def _check_field(text: str, part: str, name: str, field: Field, allowed: str) -> None:
    try:
        field.parse(part.upper())
    except (CronSimError, AssertionError):
        raise Rejected(
            "values.cron_field", "The {name} {part!r} of the cron line {text!r} is not valid.",
            name=name, part=part, text=text,
            hint=f"It takes {allowed}; lists 1,2, ranges 1-5, steps */2 and * for all.",
        ) from None  # fmt: skip


def _wrong_shape(text: str, problem: str) -> Rejected:
    return Rejected(
        "values.cron_shape", "The cron line {text!r} {problem}.", text=text[:TEXT_CHARS_MAX], problem=problem,
        hint="Five fields are needed: minute, hour, day of month, month, day of week; like 30 9 * * MON-FRI.",
    )  # fmt: skip
