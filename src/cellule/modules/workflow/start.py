"""How a run begins, and what derives from that: its keys, its chance and its time."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from cellule.modules.workflow import history


class Start(NamedTuple):
    """How a run begins: the `number`th of its cell, at a height, by an event, with further arguments."""

    number: int
    now_ns: int
    height: int
    entropy: bytes
    schema: str
    value: Any  # as it stands in the entry, and so are the arguments
    arguments: list[Any]

    def entry(self) -> bytes:
        """The first entry of the run's history."""
        return history.entry(history.START, *self)


def key_of(start: Start, number: int) -> str:
    """The key by which the answer to a command of a run finds it."""
    return f"{start.height}/{start.number}/{number}"


class StartOrigin:
    """What time, chance and key of a run derive from."""

    __slots__ = ("entropy", "key", "now_ns")

    def __init__(self, start: Start, key: bytes) -> None:
        self.now_ns = start.now_ns
        self.entropy = sha256(start.entropy + start.number.to_bytes(8, "big")).digest()
        self.key = key
