"""A checked part of an expression: the text for the library, and what is known of its value.

The text of a term is written by rank, with brackets only where the tree needs them, so that it nests no
deeper than what the author wrote.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from cellule.values.expressions.limits import PART_BYTES
from cellule.values.expressions.shapes import Kind
from cellule.values.expressions.work import ONE, Work
from cellule.values.schema.types import Schema

CHOICE: Final = 0
UNARY: Final = 6
ATOM: Final = 7
"""Ranks: chains are 1 to 5, in the order of `syntax.RANKS`."""

NOT_FINITE: Final = "not_finite"
NOT_A_NUMBER: Final = "not_a_number"
"""Variables that are never bound: reaching one is the fault it is named after."""


class Term(NamedTuple):
    """`loose`: may have left the finite numbers; `variable`: the macro variable a path begins at."""

    source: str
    rank: int = ATOM
    kind: Kind = None
    work: Work = ONE
    schema: Schema | None = None
    variable: str = ""
    is_argument: bool = False
    loose: bool = False

    def above(self, rank: int) -> str:
        """The text, in brackets unless it binds stronger than `rank`."""
        return self.source if self.rank > rank else f"({self.source})"

    def settled(self) -> Term:
        """The same value, or the fault `not_finite`: an infinity times zero is not zero."""
        if not self.loose:
            return self
        small = "g * 0.0 == 0.0" if self.kind == "double" else "type(g) != double || g * 0.0 == 0.0"
        return self._replace(
            source=f"[{self.source}].map(g, {small} ? g : {NOT_FINITE})[0]", rank=ATOM, loose=False
        )

    def negated(self) -> Term:
        """The negative number; written out, because the library's minus wraps around and negates booleans."""
        integer, double = "0 - g", "-g"
        match self.kind:
            case "int":
                text = integer
            case "double":
                text = double
            case _:
                text = f"type(g) == int ? {integer} : type(g) == double ? {double} : {NOT_A_NUMBER}"
        return Term(f"[{self.source}].map(g, {text})[0]", ATOM, self.kind, self.work)


def literal_text(value: bool | float | str | None) -> Term:
    """Write a literal."""
    match value:
        case None:
            return Term("null", kind="null")
        case bool():
            return Term("true" if value else "false", kind="bool")
        case int():
            return Term(str(value), ATOM if value >= 0 else UNARY, "int")
        case float():
            return Term(repr(value), ATOM if value >= 0 else UNARY, "double")
        case str():
            work = (1 + len(value) // PART_BYTES,)
            return Term(json.dumps(value, ensure_ascii=False), kind="string", work=work)
