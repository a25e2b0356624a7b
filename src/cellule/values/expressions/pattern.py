"""The regular expressions of `matches`, in the syntax of RE2 and run by it: time is linear in the text.

Classes by Unicode property (`\\p{...}`) are refused: which characters they hold depends on the version of
Unicode that the library knows.

Rejected: Python's `re`. It tries one way after the other, and some patterns take it years.
Rejected: an automaton of our own. It was as long as the rest of the evaluator.
"""

from __future__ import annotations

import re2

from cellule.values.expressions.limits import PATTERN_SIZE_MAX

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class PatternError(Exception):
    """The text is no regular expression."""


class PatternTooLarge(Exception):
    """The pattern has more steps than it may have."""


class Pattern:
    """A compiled pattern; `size` is the number of its steps."""

    __slots__ = ("_compiled", "size")

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_SIZE_MAX:
            raise PatternTooLarge
        if _has_property(text):
            raise PatternError("\\p{...} is not one")
        try:
            self._compiled = re2.compile(text, _OPTIONS)
        except re2.error as error:
            reason = error.args[0] if error.args else b""
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            raise PatternError(text) from None
        self.size: int = self._compiled.programsize
        if self.size > PATTERN_SIZE_MAX:
            raise PatternTooLarge

    def is_in(self, text: str) -> bool:
        """Tell whether the pattern matches somewhere in the text."""
        return self._compiled.search(text) is not None


def _has_property(text: str) -> bool:
    at = 0
    while (at := text.find("\\", at)) >= 0:
        if text[at + 1 : at + 2] in ("p", "P"):
            return True
        at += 2
    return False
