"""The two ways an expression fails: refused when compiled, or a fault when evaluated.

A fault's code and text are stored in journals, so both are the same in every process.
"""

from __future__ import annotations

from typing import NoReturn

from cellule.errors import Rejected


class ExpressionFault(Exception):
    """An evaluation that gave no answer: `code` is stable, `text` says why and where in one line."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return self.text


def wrong_kind(what: str, place: str) -> NoReturn:
    """Raise the fault of an operator or a function that does not take such a value."""
    raise ExpressionFault("values.expression_types", f"{what} got a value of the wrong kind{place}")


class Refusal(Exception):
    """Something in the text that is not accepted, at an offset; `compile_expression` makes it `Rejected`."""

    def __init__(self, code: str, offset: int, problem: str, hint: str = "") -> None:
        super().__init__(code, offset, problem, hint)
        self.code = code
        self.offset = offset
        self.problem = problem
        self.hint = hint

    def rejected(self, text: str) -> Rejected:
        """Make the error for the caller."""
        line, column = position(text, self.offset)
        return Rejected(
            self.code, "expression at line {line}, column {column}: {problem}.",
            line=line, column=column, problem=self.problem, text=text, hint=self.hint,
        )  # fmt: skip


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, counted from 1 in code points."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
