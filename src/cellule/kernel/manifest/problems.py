"""What is wrong with a manifest: problems are collected with their place and raised as one error.

An author mends a manifest in one go, so loading does not stop at the first problem. The error's code is
that of the first problem; `fields["problems"]` lists all as (path, code, text).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.manifest.limits import PROBLEMS_MAX, SHOWN_CHARS_MAX, SUGGESTIONS_MAX

_LIKENESS: Final = 0.75  # names of one namespace are alike in their beginnings already


class Problem(NamedTuple):
    """One problem: where it stands in the document as written, its stable code, and what it is."""

    path: str
    code: str
    text: str


class Problems:
    """Collects problems in the order they are found; repeated ones count once."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(self, path: str, code: str, text: str, hint: str = "") -> None:
        """Note a problem; `code` is given without its area, `hint` becomes the end of the text."""
        if len(self._found) < PROBLEMS_MAX:
            whole = f"{text}. {hint}" if hint else text
            self._found.setdefault(Problem(path, f"manifest.{code}", whole))

    def __len__(self) -> int:
        return len(self._found)

    def check_none(self) -> None:
        """Raise `Rejected` with all problems, if there is any."""
        if not self._found:
            return
        problems = list(self._found)
        first = problems[0]
        more = "".join(f"; at {path}: {text}" for path, _, text in problems[1:])
        raise Rejected(
            first.code, "manifest at {path}: {text}{more}",
            path=first.path, text=first.text, more=more, problems=[tuple(problem) for problem in problems],
        )  # fmt: skip


def below(path: str, step: str | int) -> str:
    """The path of an entry of the map or list at `path`.

    >>> below(below("$.modules", "com.acme/Order@1"), "state")
    '$.modules["com.acme/Order@1"].state'
    """
    if isinstance(step, int):
        return f"{path}[{step}]"
    if len(step) > SHOWN_CHARS_MAX:
        step = step[:SHOWN_CHARS_MAX] + "..."
    plain = step.replace("$", "_").isidentifier() and step.isascii()
    return f"{path}.{step}" if plain else f"{path}[{json.dumps(step)}]"


def near(name: str, known: Iterable[str]) -> str:
    """A hint that offers the known names most like `name`; empty when none is."""
    found = get_close_matches(name[:SHOWN_CHARS_MAX], sorted(known), SUGGESTIONS_MAX, _LIKENESS)
    return f"Did you mean {' or '.join(found)}?" if found else ""
