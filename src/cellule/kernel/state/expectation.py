"""What a message expects of the cell that it comes to: an event a version, a receipt the one who asked.

A call is an event whose sender waits for an answer; it says who that is.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32


class Expected(NamedTuple):
    """What an event's sender expects of its cell: the version, and where it said so the incarnation.

    `id` is the key of the event's id, where it has one that is remembered: a conflict leaves it to be used.
    """

    version: int
    born: int | None
    id: bytes | None

    @property
    def check(self) -> int:
        """By this two expectations are told apart; it is never 0, which stands for none."""
        return crc32(f"{self.version}@{self.born}".encode()) or 1


class Asker(NamedTuple):
    """Whom a receipt is for: the incarnation of a cell, and the key of an entry of its whole map."""

    born: int
    entry: bytes


class Call(NamedTuple):
    """Who made a call, and the schema of the event that answers it; `token` is the caller's word for it."""

    module: str
    key: bytes
    born: int
    token: str
    answer: str

    @property
    def caller(self) -> tuple[str, bytes]:
        """The cell that waits."""
        return self.module, self.key

    def is_answered(self, schema: str, target: tuple[str, bytes]) -> bool:
        """Tell whether an event of this schema to that cell is the answer."""
        return schema == self.answer and target == self.caller
