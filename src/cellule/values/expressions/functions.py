"""The functions of expressions: those that give the same answer everywhere, and why others are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

from cellule.values.expressions.fault import ExpressionFault, wrong_kind
from cellule.values.expressions.limits import INT_MAX, INT_MIN
from cellule.values.expressions.operators import finite, in_range

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE: Final = frozenset({"nan", "inf", "infinity"})
_INTEGER_DIGITS_MAX: Final = 40  # of text that is converted; leading zeros count


class TypeName(str):
    """What `type(x)` gives: equal to no text."""

    __slots__ = ()


class Function(NamedTuple):
    """How a function is called and what it gives; `takes` are the kinds of its subject, empty for any.

    `run` gets the subject, the other arguments and the place; the subject's class is one of `types`.
    """

    usage: str
    gives: str | None
    takes: frozenset[str]
    types: frozenset[type]
    run: Callable[..., Any]
    free: bool = True
    method: bool = False


def _fails(name: str, place: str) -> NoReturn:
    raise ExpressionFault("values.expression_conversion", f"{name}() cannot convert its value{place}")


def _int(value: Any, place: str) -> int:
    if value.__class__ is str:
        if len(value) > _INTEGER_DIGITS_MAX or not _INTEGER.fullmatch(value):
            _fails("int", place)
        number = int(value)
        return number if INT_MIN <= number <= INT_MAX else _fails("int", place)
    # A float at the edge stands for all reals that round to it, some of which are outside.
    if value.__class__ is float and not INT_MIN < value < INT_MAX:
        in_range(INT_MAX + 1, place)
    return int(value)


def _double(value: Any, place: str) -> float:
    if value.__class__ is not str:
        return float(value)
    if value.lower().lstrip("+-") in _NOT_FINITE:
        return finite(float("inf"), place)
    return finite(float(value), place) if _DECIMAL.fullmatch(value) else _fails("double", place)


def _string(value: Any, place: str) -> str:
    if value.__class__ is float:
        text = format(Decimal(repr(value)), "f")
        return text.removesuffix(".0")
    if value.__class__ is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            _fails("string", place)
    return str(value)


def _bytes(value: Any, _place: str) -> bytes:
    return value.encode() if value.__class__ is str else bytes(value)


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map",
    type(None): "null_type", TypeName: "type",
}  # fmt: skip
_TYPES: Final[dict[str, type]] = {name: kind for kind, name in _TYPE_NAMES.items()}
TYPE_NAMES: Final = {name: TypeName(name) for name in _TYPES}


def _free(usage: str, gives: str | None, run: Callable[..., Any], *takes: str) -> Function:
    types = frozenset(_TYPES[name] for name in takes)
    return Function(usage, gives, frozenset(takes), types, run, method=usage == "size(x)")


def _text_method(name: str, run: Callable[..., Any]) -> Function:
    takes, types = frozenset({"string"}), frozenset({str})
    return Function(f"x.{name}('text')", "bool", takes, types, run, free=False, method=True)


FUNCTIONS: Final = {
    "size": _free("size(x)", "int", lambda value, _: len(value), "string", "bytes", "list", "map"),
    "int": _free("int(x)", "int", _int, "int", "double", "string"),
    "double": _free("double(x)", "double", _double, "int", "double", "string"),
    "string": _free("string(x)", "string", _string, "int", "double", "string", "bytes"),
    "bytes": _free("bytes(x)", "bytes", _bytes, "string", "bytes"),
    "type": _free("type(x)", "type", lambda value, _: TYPE_NAMES[_TYPE_NAMES[value.__class__]]),
    "dyn": _free("dyn(x)", None, lambda value, _: value),
    "contains": _text_method("contains", lambda value, part, _: part in value),
    "startsWith": _text_method("startsWith", lambda value, part, _: value.startswith(part)),
    "endsWith": _text_method("endsWith", lambda value, part, _: value.endswith(part)),
    "matches": _text_method("matches", lambda value, pattern, _: pattern.is_in(value)),
}
"""By name. The subject is `x`: the receiver of a method, or the only argument of a free function."""


def check_taken(name: str, function: Function, value: Any, place: str) -> None:
    """Check that a function takes this value."""
    if function.types and value.__class__ not in function.types:
        wrong_kind(f"{name}()", place)


_TIMES: Final = "Times and durations are integers of nanoseconds: compare and subtract them as numbers."
_CLOCK: Final = (
    "An expression sees only its arguments; where the time is one of them, it is an integer argument."
)

REFUSED: Final = {
    "uint": "Integers are signed, of 64 bits: leave uint() out.",
    "timestamp": _TIMES,
    "duration": _TIMES,
    "now": _CLOCK,
    "today": _CLOCK,
    "random": "Chance must come from the journal: let the step put it into its event.",
    "transformList": "Use map(x, value).",
    "transformMap": "A map has no order to run in.",
    "bind": "Write the value where it is needed.",
    "min": "Compare: a < b ? a : b.",
    "max": "Compare: a > b ? a : b.",
}
"""Names that people know from elsewhere, and what to do instead."""


def known_functions() -> str:
    """All that may be called, for messages."""
    macros = "has(x.field), all, exists, exists_one, map, filter"
    return f"{', '.join(function.usage for function in FUNCTIONS.values())}; and the macros {macros}"
