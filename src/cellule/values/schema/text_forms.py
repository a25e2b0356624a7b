"""Times and durations as text for people: RFC 3339 with nanoseconds, and durations like `1h30m`.

Both are exact: every integer has one text, and reading it gives the integer back. Reading also takes other
spellings (offsets, `90s`, `1.5h`, `2d`), as long as they name a whole number of nanoseconds.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from fractions import Fraction

from cellule.values.schema.fault import mismatch
from cellule.values.schema.scalars import EPOCH, MICROSECOND, ranged

SECOND_NS = 1_000_000_000

_UNITS_NS = {
    "d": 86_400 * SECOND_NS,
    "h": 3_600 * SECOND_NS,
    "m": 60 * SECOND_NS,
    "s": SECOND_NS,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_UNITS_WRITTEN = ("h", "m", "s", "ms", "us", "ns")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|z|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"([+-]?)((?:\d{1,24}(?:\.\d{1,24})?(?:d|h|ms|m|s|us|µs|ns))+)", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|s|us|µs|ns)", re.ASCII)


def time_text(nanoseconds: int) -> str:
    """Write a time as RFC 3339 in UTC with 0, 3, 6 or 9 digits of fraction.

    >>> time_text(1_700_000_000_000_000_001)
    '2023-11-14T22:13:20.000000001Z'
    """
    seconds, rest = divmod(nanoseconds, SECOND_NS)
    moment = (EPOCH + timedelta(0, seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{rest:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{moment}.{digits}Z" if digits else f"{moment}Z"


def time_of_text(text: object) -> int:
    """Read an RFC 3339 time with any offset and up to 9 digits of fraction."""
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise mismatch("a time like '2024-02-29T12:00:00Z'", text)
    date, clock, fraction, offset = found.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}{offset.upper().replace('Z', '+00:00')}")
        microseconds = (moment - EPOCH) // MICROSECOND
    except (ValueError, OverflowError):
        raise mismatch("a time that exists, like '2024-02-29T12:00:00Z'", text) from None
    return ranged(microseconds * 1000 + int((fraction or "").ljust(9, "0")))


def duration_text(nanoseconds: int) -> str:
    """Write a duration in whole units, largest first, leaving out zeros.

    >>> duration_text(5_400_250_000_000)
    '1h30m250ms'
    """
    parts = ["-" if nanoseconds < 0 else ""]
    rest = abs(nanoseconds)
    for unit in _UNITS_WRITTEN:
        count, rest = divmod(rest, _UNITS_NS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) if nanoseconds else "0s"


def duration_of_text(text: object) -> int:
    """Read a duration like `1h30m`, `250ms`, `1.5h`: units descend, each at most once."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) and len(text) <= 200 else None
    if found is None:
        raise mismatch("a duration like '1h30m' or '250ms'", text)
    total, smallest = Fraction(0), _UNITS_NS["d"] + 1
    for count, unit in _PART.findall(found[2]):
        size = _UNITS_NS[unit.replace("µ", "u")]
        if size >= smallest:
            raise mismatch("a duration whose units descend, like '1h30m'", text)
        total, smallest = total + Fraction(count) * size, size
    if total.denominator != 1:
        raise mismatch("a duration of whole nanoseconds", text)
    return ranged(-int(total) if found[1] == "-" else int(total))
