"""What mailboxes need of whoever runs them: the tree as it was when the beat began, and ways to change it.

An enzyme's context is one. Reads see nothing of what the run itself writes, so a turn keeps what it changes
at hand (`Changes`) and writes it at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Tree(Protocol):
    """An enzyme's context, as far as mailboxes use it."""

    @property
    def beat(self) -> int:
        """The beat that runs."""

    @property
    def now_ns(self) -> int:
        """Its time."""

    def next_place(self) -> str:
        """A new name for what this run hands in next: no other of the beat has it, and they order in turn."""

    def read(self, path: str) -> Any:
        """The value of a node, or None."""

    def list(self, path: str, *, after: str | None = None, limit: int = 1_000) -> Sequence[str]:
        """The names of a node's children, in order."""

    def write(self, path: str, value: Any) -> None:
        """Set a node's value."""

    def delete(self, path: str) -> None:
        """Take a node away with all below it; nothing happens where there is none."""

    def signal(
        self, signal: str | None, target: str | None = None, *, payload: Any = None, beat: int | None = None
    ) -> None:
        """Queue an impulse for the next beat, or a later one."""

    def intervals(self, samples: int) -> Sequence[int]:
        """The newest intervals between beats, in ns; all for 0."""
