"""The operators of plan expressions: pure functions of plain values, each with its number of arguments.

Numbers compare with numbers only, and true is no number. What an operator cannot do with its arguments is a
`TypeError` or `ValueError`; the expression adds the place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cellule.modules.plan.limits import VALUE_BYTES_MAX
from cellule.values.schema import types as t
from cellule.values.schema.types import Schema

_NUMBERS: Final = (int, float)


class Operator(NamedTuple):
    """A function of so many arguments (None: any number from one on); `gives` is the type of its result."""

    arity: int | None
    function: Callable[..., Any]
    gives: Schema | None


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other) and not (_is_number(one) and _is_number(other)):
        return False
    return bool(one == other)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(one: Any, other: Any) -> bool:
        alike = (_is_number(one) and _is_number(other)) or type(one) is type(other) in (str, bytes)
        if not alike:
            raise TypeError(f"{type(one).__name__} and {type(other).__name__} have no order")
        return compare(one, other)

    return ordered


def _counted(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def counted(one: Any, other: Any) -> Any:
        if not (_is_number(one) and _is_number(other)):
            raise TypeError(f"numbers are needed, not {type(one).__name__} and {type(other).__name__}")
        found = compute(one, other)
        if type(found) is int and not -(1 << 64) <= found < 1 << 64:
            raise ValueError("the number is outside -2^64..2^64-1")
        return found

    return counted


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"true or false is needed, not {type(value).__name__}")
    return value


def _not(value: Any) -> bool:
    return not _truth(value)


def _concat(*parts: Any) -> Any:
    if all(type(part) is list for part in parts):
        return [item for part in parts for item in part]
    if not all(type(part) is str for part in parts):
        raise TypeError("only texts, or only lists, are joined")
    if sum(map(len, parts)) > VALUE_BYTES_MAX:
        raise ValueError(f"the text is longer than {VALUE_BYTES_MAX} characters")
    return "".join(parts)


def _length(value: Any) -> int:
    if type(value) not in (str, bytes, list, dict):
        raise TypeError(f"{type(value).__name__} has no length")
    return len(value)


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise TypeError(f"a text or a whole number is needed, not {type(value).__name__}")


def _has(value: Any) -> bool:
    return value is not None


def _get(value: Any, at: Any) -> Any:
    if type(value) is dict and type(at) is str:
        return value.get(at)
    if type(value) is list and type(at) is int:
        return value[at] if 0 <= at < len(value) else None
    raise TypeError("a map and a text, or a list and a whole number, are needed")


LAZY: Final = ("and", "or", "if")
"""Operators that look at an argument only if they need it; `expr.py` compiles them."""

OPERATORS: Final[dict[str, Operator]] = {
    "eq": Operator(2, _same, t.Bool()),
    "ne": Operator(2, lambda one, other: not _same(one, other), t.Bool()),
    "lt": Operator(2, _ordered(lambda one, other: bool(one < other)), t.Bool()),
    "le": Operator(2, _ordered(lambda one, other: bool(one <= other)), t.Bool()),
    "gt": Operator(2, _ordered(lambda one, other: bool(one > other)), t.Bool()),
    "ge": Operator(2, _ordered(lambda one, other: bool(one >= other)), t.Bool()),
    "not": Operator(1, _not, t.Bool()),
    "and": Operator(None, _truth, t.Bool()),
    "or": Operator(None, _truth, t.Bool()),
    "if": Operator(3, _truth, None),
    "add": Operator(2, _counted(lambda one, other: one + other), None),
    "sub": Operator(2, _counted(lambda one, other: one - other), None),
    "mul": Operator(2, _counted(lambda one, other: one * other), None),
    "concat": Operator(None, _concat, None),
    "len": Operator(1, _length, t.Int()),
    "text": Operator(1, _text, t.Text()),
    "has": Operator(1, _has, t.Bool()),
    "get": Operator(2, _get, None),
}
