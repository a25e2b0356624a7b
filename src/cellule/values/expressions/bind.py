"""Plain values checked for the library, and its answers for us.

Integers outside 64 bits and floats that are not finite are refused, links become the text of their CID, and
everything is counted, because the size of what is bound bounds the work. Answers are plain values again, with
maps in canonical order.
"""

from __future__ import annotations

import math
from typing import Any

from cellule.values.expressions.fault import ExpressionFault
from cellule.values.expressions.limits import INT_MAX, INT_MIN, PART_BYTES, VALUE_DEPTH_MAX
from cellule.values.link import Link


class Sizes:
    """Counts the parts of values while it checks and converts them."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    def bound(self, value: Any, path: object, depth: int = 0) -> Any:
        """Check `value` and return what the library gets; raises `ExpressionFault` naming `path`."""
        self.size += 1
        kind = value.__class__
        if kind is str or kind is bytes:
            self.size += len(value) // PART_BYTES
            return value
        if kind is bool or value is None:
            return value
        if kind is int:
            return _checked_int(value, path)
        if kind is float:
            return _checked_float(value, path)
        if depth >= VALUE_DEPTH_MAX:
            raise ExpressionFault("values.expression_argument", f"{path} nests too deeply")
        if kind is list or kind is tuple:
            return [self.bound(item, path, depth + 1) for item in value]
        if kind is dict:
            return {_checked_key(key, path): self.bound(item, path, depth + 1) for key, item in value.items()}
        if isinstance(value, Link):
            return str(value.cid)
        raise ExpressionFault(
            "values.expression_argument", f"{path} holds a {kind.__name__}, which is no plain value"
        )


def _checked_int(value: int, path: object) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ExpressionFault("values.expression_int_range", f"{path} holds an integer outside 64 bits")


def _checked_float(value: float, path: object) -> float:
    if math.isfinite(value):
        return value
    raise ExpressionFault("values.expression_not_finite", f"{path} is not a finite number")


def _checked_key(key: object, path: object) -> str:
    if isinstance(key, str):
        return key
    raise ExpressionFault("values.expression_argument", f"{path} holds a map with a key that is not text")


def answer(value: Any) -> Any:
    """Return a result of the library as a plain value."""
    kind = value.__class__
    if kind is float:
        return _checked_float(value, "the result") + 0.0
    if kind is list:
        return [answer(item) for item in value]
    if kind is dict:
        keys = sorted(value, key=_canonical)
        return {key: answer(value[key]) for key in keys}
    return value


def _canonical(key: str) -> tuple[int, bytes]:
    raw = key.encode()
    return len(raw), raw
