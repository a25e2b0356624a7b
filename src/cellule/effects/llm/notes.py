"""Progress notes of an answer: what came since the last one, not more often than people can read.

A note is `{"text": ...}`; all notes of an attempt put together are the text so far. The first piece is told
at once. Each attempt begins anew.
"""

from __future__ import annotations

from collections.abc import Callable

from cellule.effects.attempt import Attempt

NOTE_SECONDS_MIN = 0.1
NOTE_CHARS_MAX = 4_000


class TextNotes:
    """Tells an attempt's text in pieces of at least `NOTE_SECONDS_MIN`, or of `NOTE_CHARS_MAX` characters."""

    def __init__(self, attempt: Attempt, time_s: Callable[[], float]) -> None:
        self._attempt = attempt
        self._time_s = time_s
        self._waiting = ""
        self._next_s = time_s()

    def add(self, text: str) -> None:
        """Tell `text`, now or with what follows."""
        self._waiting += text
        if self._waiting and (self._time_s() >= self._next_s or len(self._waiting) >= NOTE_CHARS_MAX):
            self.flush()

    def flush(self) -> None:
        """Tell what is waiting."""
        if self._waiting:
            self._attempt.note({"text": self._waiting})
            self._waiting = ""
            self._next_s = self._time_s() + NOTE_SECONDS_MIN
