"""`Finding`: one place in the code that could not be repeated."""

from __future__ import annotations

from typing import NamedTuple

from cellule.modules.python.rules import INSTEAD


class Finding(NamedTuple):
    """One place that could not be repeated, and what to do instead."""

    path: str
    line: int
    rule: str
    what: str
    line_end: int

    @property
    def instead(self) -> str:
        """What to write."""
        return INSTEAD[self.rule]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what} [{self.rule}]. {self.instead}"
