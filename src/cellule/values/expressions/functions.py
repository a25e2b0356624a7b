"""The functions of expressions: those that give the same answer everywhere, and why others are refused."""

from __future__ import annotations

from typing import Final, NamedTuple


class Function(NamedTuple):
    """How a function is called and what it gives; `takes` are the kinds of its subject, empty for any."""

    usage: str
    gives: str | None
    takes: frozenset[str]
    free: bool
    method: bool
    arguments: int


def _free(usage: str, gives: str | None, *takes: str, method: bool = False) -> Function:
    return Function(usage, gives, frozenset(takes), True, method, 0)


def _text_method(name: str) -> Function:
    return Function(f"x.{name}('text')", "bool", frozenset({"string"}), False, True, 1)


FUNCTIONS: Final = {
    "size": _free("size(x)", "int", "string", "bytes", "list", "map", method=True),
    "int": _free("int(x)", "int", "int", "double", "string"),
    "double": _free("double(x)", "double", "int", "double", "string"),
    "string": _free("string(x)", "string", "int", "double", "string", "bytes"),
    "bytes": _free("bytes(x)", "bytes", "string", "bytes"),
    "type": _free("type(x)", "type"),
    "dyn": _free("dyn(x)", None),
    "contains": _text_method("contains"),
    "startsWith": _text_method("startsWith"),
    "endsWith": _text_method("endsWith"),
    "matches": _text_method("matches"),
}
"""By name. The subject is `x`: the receiver of a method, or the only argument of a free function."""

TYPE_NAMES: Final = frozenset({"bool", "int", "double", "string", "bytes", "list", "map", "null_type"})

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
