"""Wire forms of single Python values: decimals, times, durations, UUIDs, links, and near misses of builtins.

Every function takes one value and returns its other form, or raises a `Fault` without a path. The functions
named after a type (`integer`, `text`, ...) are called by generated code only when the exact class did not
match: they let harmless subclasses through as plain values (an `IntEnum` in an int field), nothing else.

Rejected: rounding nanoseconds to the microseconds of `datetime`. A value read and written back would differ.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec

from cellule.values.cid import Cid
from cellule.values.limits import INT_MAX, INT_MIN
from cellule.values.link import Link
from cellule.values.schema import types as t
from cellule.values.schema.fault import Fault, expected, mismatch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_DECIMAL = re.compile(r"(-?)0*(\d+?)(?:\.(\d*?)0*)?", re.ASCII)
_NORMAL = re.compile(r"(?!-0$)-?(?:0|[1-9]\d{0,300})(?:\.\d{0,300}[1-9])?", re.ASCII)
"""Decimals that are normal already and surely not too long."""


def integer(value: object) -> int:
    """Return an integer of any size; the range is checked where it is encoded."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise mismatch("an integer", value)


def ranged(value: object) -> int:
    """Return an integer of the canonical range."""
    number = integer(value)
    if not INT_MIN <= number <= INT_MAX:
        raise mismatch(expected(t.Int()), number)
    return number


def floating(value: object) -> float:
    """Return a finite float that is not -0.0; an integer becomes the nearest float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch("a finite float", value)
    try:
        number = float(value)
    except OverflowError:
        raise mismatch("a finite float", value) from None
    if not math.isfinite(number):
        raise mismatch("a finite float", number)
    if number == 0.0 and math.copysign(1.0, number) < 0:
        raise mismatch("a float that is not -0.0", number, hint="Add 0.0 to it: -0.0 + 0.0 is 0.0.")
    return number


def text(value: object) -> str:
    """Return text that has a UTF-8 form."""
    if not isinstance(value, str):
        raise mismatch("text", value)
    plain = str.__str__(value)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError:
            raise mismatch("text without lone surrogates", value) from None
    return plain


def octets(value: object) -> bytes:
    """Return a byte string."""
    if isinstance(value, bytes):
        return bytes(value)
    raise mismatch("bytes", value)


def boolean(value: object) -> bool:
    """Return a boolean."""
    if isinstance(value, bool):
        return value
    raise mismatch("a boolean", value)


def unit(value: object) -> None:
    """Accept null only."""
    if value is not None:
        raise mismatch("null", value)


def link_from(value: object) -> Link:
    """Return the link of a link or a CID."""
    if isinstance(value, Link):
        return value
    if isinstance(value, Cid):
        return Link(value)
    raise mismatch("a link", value)


def cid_from(value: object) -> Cid:
    """Return the CID of a link."""
    return link_from(value).cid


def decimal_text(value: object) -> str:
    """Write a decimal plainly: no exponent, no superfluous zeros, no -0."""
    if not isinstance(value, Decimal):
        raise mismatch("a Decimal", value)
    if _NORMAL.fullmatch(written := str(value)):
        return written
    if not value.is_finite():
        raise mismatch("a finite Decimal", value)
    if abs(value.adjusted()) > t.DEC_LENGTH_MAX or len(plain := format(value, "f")) > t.DEC_LENGTH_MAX:
        raise mismatch(f"a Decimal of at most {t.DEC_LENGTH_MAX} characters", value)
    return normal_decimal(plain)


def normal_decimal(value: object) -> str:
    """Normalise the text of a plain decimal: '007.50' is '7.5', '-0.0' is '0'."""
    if not isinstance(value, str) or len(value) > t.DEC_LENGTH_MAX:
        raise mismatch(expected(t.Dec()), value)
    found = _DECIMAL.fullmatch(value)
    if found is None or value.endswith("."):
        raise mismatch(expected(t.Dec()), value)
    digits = f"{found[2]}.{found[3]}" if found[3] else found[2]
    return digits if digits == "0" else found[1] + digits


def decimal_from(value: object) -> Decimal:
    """Read a plain decimal."""
    if value.__class__ is str and _NORMAL.fullmatch(value):
        return Decimal(value)
    return Decimal(normal_decimal(value))


def time_ns(value: object) -> int:
    """Write an aware datetime as nanoseconds."""
    if not isinstance(value, datetime):
        raise mismatch("a datetime", value)
    try:
        nanoseconds = (value - EPOCH) // MICROSECOND * 1000
    except TypeError:  # what subtracting a datetime without zone raises
        hint = "Give it a time zone, like datetime.now(UTC)."
        raise mismatch("an aware datetime", value, hint=hint) from None
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise mismatch("a time between the years 1386 and 2554", value)
    return nanoseconds


def time_from(value: object) -> datetime:
    """Read nanoseconds as a datetime in UTC; refuses what a datetime cannot hold exactly."""
    seconds, rest = divmod(value if value.__class__ is int else integer(value), 1_000_000_000)
    if rest % 1000:
        raise _too_fine("datetime", "TimeNs", value)
    return EPOCH + timedelta(0, seconds, rest // 1000)


def duration_ns(value: object) -> int:
    """Write a timedelta as nanoseconds."""
    if not isinstance(value, timedelta):
        raise mismatch("a timedelta", value)
    nanoseconds = value // MICROSECOND * 1000
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise mismatch("a duration of at most 584 years", value)
    return nanoseconds


def duration_from(value: object) -> timedelta:
    """Read nanoseconds as a timedelta; refuses what a timedelta cannot hold exactly."""
    seconds, rest = divmod(value if value.__class__ is int else integer(value), 1_000_000_000)
    if rest % 1000:
        raise _too_fine("timedelta", "DurationNs", value)
    return timedelta(0, seconds, rest // 1000)


def uuid_bytes(value: object) -> bytes:
    """Write a UUID as 16 bytes."""
    if isinstance(value, UUID):
        return value.int.to_bytes(16)
    raise mismatch("a UUID", value)


def uuid_from(value: object) -> UUID:
    """Read a UUID from 16 bytes; msgspec's constructor is three times faster than the class's own."""
    if value.__class__ is bytes and len(value) == 16:
        return msgspec.convert(value, UUID)
    raise mismatch(expected(t.Uuid()), value)


def not_null(value: object) -> object:
    """Accept anything but null; what it holds is checked where it is encoded."""
    if value is None:
        raise mismatch(expected(t.Any()), value)
    return value


def _too_fine(kind: str, annotation: str, value: object) -> Fault:
    return Fault(
        "schema.precision_lost",
        f"{value} nanoseconds are not whole microseconds, and a {kind} holds no more",
        hint=f"Annotate the field as {annotation} to keep nanoseconds as an integer.",
    )
