"""Which kinds of values operators take, and what they give. Unknown kinds pass here and may fault later."""

from __future__ import annotations

from typing import Final

from cellule.values.expressions.fault import Refusal
from cellule.values.expressions.shapes import NUMBERS, Kind

_CODE: Final = "values.expression_types"
_CONCATENATED: Final = frozenset({"string", "bytes", "list"})
_ORDERED: Final = frozenset({"bool", "int", "double", "string", "bytes"})
_CONTAINERS: Final = frozenset({"list", "map"})


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
    if operator == "%":
        return "int"
    return left or right


def check_compared(operator: str, left: Kind, right: Kind, at: int) -> None:
    """Check that a comparison can be true for some values and false for others."""
    if operator == "in":
        if right is not None and right not in _CONTAINERS:
            raise Refusal(
                _CODE,
                at,
                f"in looks into lists and maps, not into {right}",
                "For text: x.contains('text').",
            )
        return
    if operator in ("==", "!="):
        if left and right and left != right and "null" not in (left, right) and not {left, right} <= NUMBERS:
            raise Refusal(
                _CODE, at, f"{left} never equals {right}", "Convert one of them, or compare dyn(x)."
            )
        return
    for kind in (left, right):
        if kind is not None and kind not in _ORDERED:
            raise Refusal(_CODE, at, f"{operator} does not order {kind}")
    if left and right and left != right and not {left, right} <= NUMBERS:
        raise Refusal(_CODE, at, f"{operator} compares {left} with {right}", "Join comparisons with &&.")
