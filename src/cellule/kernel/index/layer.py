"""A layer of changes that are not yet in a root: entries in memory, and those spilled to the host's scratch.

A key is in at most one of the two. A deletion is the entry None; it stays in memory. What was spilled is
found again by its slot; where an entry lies never changes what is read or written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

Entry = TypeVar("Entry")


class Missing:
    """The type of `MISSING`: memory does not tell, the root has to be read."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Spill(Protocol):
    """The host's scratch space: synchronous, not durable, one owner."""

    def put(self, data: bytes, /) -> int:
        """Store `data` and return its slot."""

    def get(self, slot: int, /) -> bytes:
        """The data of a slot."""

    def drop(self, slot: int, /) -> None:
        """Free a slot."""


class Layer(Generic[Entry]):
    """Changed entries by key, and how they change the number of entries.

    `bytes_held` is what the entries in memory weigh. `added` counts the keys known to appear, less those that
    go; for the `unsure` ones only the root can tell whether they were there before.
    """

    __slots__ = ("_ordered", "added", "bytes_held", "entries", "spilled", "unsure")

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry | None] = {}
        self.spilled: dict[bytes, int] = {}
        self.bytes_held = 0
        self.added = 0
        self.unsure: set[bytes] = set()
        self._ordered: list[bytes] = []

    def changed(self) -> list[bytes]:
        """All changed keys."""
        return [*self.entries, *self.spilled]

    def walk(self, begin: bytes, end: bytes | None) -> Iterator[bytes]:
        """The changed keys of `[begin, end)`, ascending.

        A layer never forgets a key, so they are sorted again only when there are more of them.
        """
        if len(self._ordered) != len(self.entries) + len(self.spilled):
            self._ordered = sorted(self.changed())
        keys = self._ordered
        low = bisect_left(keys, begin)
        high = len(keys) if end is None else bisect_left(keys, end)
        return (keys[at] for at in range(low, high))

    def has_entry(self, key: bytes) -> bool:
        """Tell whether the layer leaves an entry under a key that it changed."""
        return key in self.spilled or self.entries[key] is not None

    def spill(
        self, out: Spill, data_of: Callable[[Entry], bytes], weigh: Callable[[Entry], int], bytes_excess: int
    ) -> int:
        """Move the entries that entered first out of memory; returns how much of the excess is left."""
        chosen: list[tuple[bytes, Entry]] = []
        for key, entry in self.entries.items():
            if bytes_excess <= 0:
                break
            if entry is not None:
                chosen.append((key, entry))
                bytes_excess -= weigh(entry)
        for key, entry in chosen:
            self.spilled[key] = out.put(data_of(entry))
            self.bytes_held -= weigh(entry)
            del self.entries[key]
        return bytes_excess
