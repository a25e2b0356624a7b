"""The two ways an expression fails: refused when compiled, or a fault when evaluated.

A fault's code and text are stored in journals, so both are ours and the same in every process. What the
library says is not used: it writes out maps in random order, and its wording changes between releases.
"""

from __future__ import annotations

from cellule.errors import Rejected


class ExpressionFault(Exception):
    """An evaluation that gave no answer: `code` is stable, `text` says why in one line."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return self.text


class Refusal(Exception):
    """Something in the text that is not accepted, at an offset; `compile_expression` makes it `Rejected`."""

    def __init__(self, code: str, offset: int, problem: str, hint: str = "") -> None:
        super().__init__(code, offset, problem, hint)
        self.code = code
        self.offset = offset
        self.problem = problem
        self.hint = hint

    def rejected(self, text: str) -> Rejected:
        """Make the error for the caller, with line and column counted from 1 in code points."""
        before = text[: self.offset]
        return Rejected(
            self.code, "expression at line {line}, column {column}: {problem}.",
            line=before.count("\n") + 1, column=self.offset - (before.rfind("\n") + 1) + 1,
            problem=self.problem, text=text, hint=self.hint,
        )  # fmt: skip
