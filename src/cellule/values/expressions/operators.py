"""The operators: which kinds of values they take, and what they give.

Unknown kinds pass when an expression is compiled and may be faults when it is evaluated. Integers stay within
64 bits, floats stay finite, and numbers of the two kinds compare as floats. The order of a map never shows.
"""

from __future__ import annotations

import operator as py
from collections.abc import Callable
from typing import Any, Final

from cellule.values.expressions.fault import ExpressionFault, Refusal, wrong_kind
from cellule.values.expressions.limits import INT_MAX, INT_MIN, SHOWN_CHARS_MAX
from cellule.values.expressions.shapes import NUMBERS, Kind

Operation = Callable[[Any, Any, str], Any]
"""The value of `left operator right`; the text says where it stands, for faults."""

_CODE: Final = "values.expression_types"
_CONCATENATED: Final = frozenset({"string", "bytes", "list"})
_ORDERED: Final = frozenset({"bool", "int", "double", "string", "bytes"})
_CONTAINERS: Final = frozenset({"list", "map"})
_OPERATOR: Final = "an operator"


def check_is(kind: Kind, expected: str, at: int, what: str) -> None:
    """Check that a value that must be `expected` is, or may be."""
    if kind not in (None, expected):
        raise Refusal(_CODE, at, f"{what} must be {expected}, and this is {kind}")


def arithmetic_kind(operator: str, left: Kind, right: Kind, at: int) -> Kind:
    """The kind of `left operator right`; raises `Refusal` where no values of these kinds fit."""
    allowed = {"int"} if operator == "%" else NUMBERS | (_CONCATENATED if operator == "+" else frozenset())
    for kind in (left, right):
        if kind is not None and kind not in allowed:
            raise Refusal(_CODE, at, f"{operator} does not take {kind}")
    if left and right and left != right:
        hint = "Convert one of them: int(x), double(x) or string(x)."
        raise Refusal(_CODE, at, f"{operator} joins {left} with {right}", hint)
    return "int" if operator == "%" else left or right


def check_compared(operator: str, left: Kind, right: Kind, at: int) -> None:
    """Check that a comparison can be true for some values and false for others."""
    alike = not left or not right or left == right or {left, right} <= NUMBERS
    if operator == "in":
        if right is not None and right not in _CONTAINERS:
            hint = "For text: x.contains('text')."
            raise Refusal(_CODE, at, f"in looks into lists and maps, not into {right}", hint)
    elif operator in ("==", "!="):
        if not alike and "null" not in (left, right):
            hint = "Convert one of them, or compare dyn(x)."
            raise Refusal(_CODE, at, f"{left} never equals {right}", hint)
    else:
        for kind in (left, right):
            if kind is not None and kind not in _ORDERED:
                raise Refusal(_CODE, at, f"{operator} does not order {kind}")
        if not alike:
            raise Refusal(_CODE, at, f"{operator} compares {left} with {right}", "Join comparisons with &&.")


def finite(value: float, place: str) -> float:
    """Check that a float is finite: only what is not has a difference to itself."""
    if value - value == 0.0:
        return value
    raise ExpressionFault("values.expression_not_finite", f"a number is not finite{place}")


def in_range(value: int, place: str) -> int:
    """Check that an integer has 64 bits."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ExpressionFault("values.expression_overflow", f"an integer left the range of 64 bits{place}")


def _arithmetic(operate: Callable[[Any, Any], Any], *joins: type) -> Operation:
    def run(left: Any, right: Any, place: str) -> Any:
        kind = left.__class__
        if kind is not right.__class__:
            wrong_kind(_OPERATOR, place)
        if kind is int:
            return in_range(operate(left, right), place)
        if kind is float:
            return finite(operate(left, right), place)
        return operate(left, right) if kind in joins else wrong_kind(_OPERATOR, place)

    return run


def _divide(left: Any, right: Any, place: str) -> Any:
    kind = left.__class__
    if kind is not right.__class__ or (kind is not int and kind is not float):
        wrong_kind(_OPERATOR, place)
    if kind is float:
        return finite(left / right if right else float("inf"), place)
    quotient = abs(left) // abs(_divisor(right, place))
    return in_range(quotient if (left < 0) == (right < 0) else -quotient, place)


def _remainder(left: Any, right: Any, place: str) -> Any:
    if left.__class__ is not int or right.__class__ is not int:
        wrong_kind(_OPERATOR, place)
    rest = abs(left) % abs(_divisor(right, place))
    if right == -1:
        in_range(-left, place)  # the smallest integer has no remainder by -1, because it has no quotient
    return rest if left >= 0 else -rest


def _divisor(value: int, place: str) -> int:
    if value:
        return value
    raise ExpressionFault("values.expression_division", f"division by zero{place}")


def negative(value: Any, place: str) -> Any:
    """The negative of a number."""
    if value.__class__ is int:
        return in_range(-value, place)
    return -value if value.__class__ is float else wrong_kind(_OPERATOR, place)


def equal(left: Any, right: Any) -> bool:
    """Tell whether two values are equal: numbers by value, lists by item, maps whatever their order."""
    kind = left.__class__
    if kind is not right.__class__:
        if (kind is int and right.__class__ is float) or (kind is float and right.__class__ is int):
            return float(left) == float(right)
        return False
    if kind is list:
        return len(left) == len(right) and all(map(equal, left, right))
    if kind is dict:
        return left.keys() == right.keys() and all(equal(item, right[key]) for key, item in left.items())
    return bool(left == right)


def _comparison(compare: Callable[[Any, Any], bool]) -> Operation:
    def run(left: Any, right: Any, place: str) -> bool:
        kind, other = left.__class__, right.__class__
        if kind is other:
            if kind not in _ORDERED_TYPES:
                wrong_kind(_OPERATOR, place)
            return compare(left, right)
        if kind in _NUMBER_TYPES and other in _NUMBER_TYPES:
            return compare(float(left), float(right))
        return wrong_kind(_OPERATOR, place)

    return run


_ORDERED_TYPES: Final = frozenset({bool, int, float, str, bytes})
_NUMBER_TYPES: Final = frozenset({int, float})


def _contained(left: Any, right: Any, place: str) -> bool:
    if right.__class__ is list:
        return any(equal(left, item) for item in right)
    if right.__class__ is dict:
        return left.__class__ is str and left in right
    return wrong_kind(_OPERATOR, place)


OPERATIONS: Final[dict[str, Operation]] = {
    "==": lambda left, right, _: equal(left, right),
    "!=": lambda left, right, _: not equal(left, right),
    "<": _comparison(py.lt),
    "<=": _comparison(py.le),
    ">": _comparison(py.gt),
    ">=": _comparison(py.ge),
    "in": _contained,
    "+": _arithmetic(py.add, str, bytes, list),
    "-": _arithmetic(py.sub),
    "*": _arithmetic(py.mul),
    "/": _divide,
    "%": _remainder,
}
"""By sign."""


def entry(of: Any, key: Any, place: str) -> Any:
    """The entry of a map or a list."""
    if of.__class__ is dict:
        if key.__class__ is str and key in of:
            return of[key]
        raise ExpressionFault(
            "values.expression_missing", f"there is no key {key!r:.{SHOWN_CHARS_MAX}}{place}"
        )
    if of.__class__ is not list:
        wrong_kind("an index", place)
    if key.__class__ is float and key.is_integer():
        key = int(key)
    if key.__class__ is not int:
        wrong_kind("an index", place)
    if 0 <= key < len(of):
        return of[key]
    raise ExpressionFault("values.expression_missing", f"an index lies outside its list{place}")


def has_field(of: Any, field: str, place: str) -> bool:
    """Tell whether a map has a key."""
    return field in of if of.__class__ is dict else wrong_kind("has()", place)


def is_true(value: Any, place: str) -> bool:
    """The truth of a condition."""
    return value if value.__class__ is bool else wrong_kind(_OPERATOR, place)
