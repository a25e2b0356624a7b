"""Which guards can hold together: two comparisons of one path with literals are compared as ranges.

    event.n < 10                 event.n < 1000       the second holds wherever the first does: both may hold
    event.n < 10                 event.n >= 10        never both
    data.kind == 'a' && x > 1    data.kind == 'b'     never both

Only `&&` of such comparisons is understood; of any other guard nothing is known, so it may hold together with
all others. A guard that an earlier one covers can never be taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

_COMPARED: Final = re.compile(r"([A-Za-z_][\w.]*)\s*(<=|>=|==|<|>)\s*(?:(-?\d+(?:\.\d+)?)|'([^'\\]*)')")
_UNKNOWN: Final = re.compile(r"\|\||[?()\[\]{}\"\\]|'[^']*&&[^']*'")


class Range(NamedTuple):
    """The values that a path may have: a range of numbers, or one text."""

    low: Decimal = Decimal("-Infinity")
    high: Decimal = Decimal("Infinity")
    has_low: bool = True
    has_high: bool = True
    text: str | None = None

    def covers(self, other: Range) -> bool:
        """Whether every value of the other is one of this."""
        if self.text is not None or other.text is not None:
            return self.text == other.text
        low = self.low < other.low or (self.low == other.low and (self.has_low or not other.has_low))
        high = self.high > other.high or (self.high == other.high and (self.has_high or not other.has_high))
        return low and high

    def meets(self, other: Range) -> bool:
        """Whether a value is in both."""
        if self.text is not None or other.text is not None:
            return self.text == other.text
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low != high:
            return low < high
        return all(
            (each.has_low or each.low != low) and (each.has_high or each.high != low)
            for each in (self, other)
        )


Ranges = Mapping[str, Range]


def ranges_of(guard: str) -> tuple[Ranges, bool]:
    """The ranges of the paths of a guard, and whether that is all it says."""
    if _UNKNOWN.search(guard):
        return {}, False
    found: dict[str, Range] = {}
    is_all = True
    for part in guard.split("&&"):
        compared = _COMPARED.fullmatch(part.strip())
        is_text_order = compared is not None and compared[4] is not None and compared[2] != "=="
        if compared is None or is_text_order or compared[1] in found:
            is_all = False
            continue
        found[compared[1]] = _range(compared[2], compared[3], compared[4])
    return found, is_all


def covers(first: str, second: str) -> bool:
    """Whether the first guard holds wherever the second does, as far as can be known."""
    (ours, is_all), (theirs, _) = ranges_of(first), ranges_of(second)
    if not is_all:
        return False
    return all(path in theirs and ours[path].covers(theirs[path]) for path in ours)


def may_both_hold(first: str, second: str) -> bool:
    """Whether both guards may hold, as far as can be known."""
    (ours, _), (theirs, _) = ranges_of(first), ranges_of(second)
    return all(ours[path].meets(theirs[path]) for path in set(ours) & set(theirs))


def _range(sign: str, number: str | None, text: str | None) -> Range:
    if number is None:
        return Range(text=text)
    value = Decimal(number)
    match sign:
        case "<":
            return Range(high=value, has_high=False)
        case "<=":
            return Range(high=value)
        case ">":
            return Range(low=value, has_low=False)
        case ">=":
            return Range(low=value)
        case _:
            return Range(value, value)
