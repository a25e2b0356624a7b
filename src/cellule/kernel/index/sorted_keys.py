"""A sorted set of keys in memory: cheap to add to, to take the first from, and to walk.

A list of short sorted lists: adding moves at most one of them. Rejected: one sorted list, which moves
megabytes at every put once it holds 100,000 keys. Rejected: a heap, which cannot be walked or removed from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

PART_KEYS = 512  # a part is split when it grows to twice as many


class SortedKeys:
    """Byte strings in ascending order, without duplicates (the caller sees to that)."""

    __slots__ = ("_lasts", "_parts")

    def __init__(self) -> None:
        self._parts: list[list[bytes]] = []
        self._lasts: list[bytes] = []

    def add(self, key: bytes) -> None:
        """Add a key that is not in the set."""
        if not self._parts:
            self._parts.append([key])
            self._lasts.append(key)
            return
        position = bisect_left(self._lasts, key)
        if position == len(self._parts):
            position -= 1
            part = self._parts[position]
            part.append(key)
            self._lasts[position] = key
        else:
            part = self._parts[position]
            insort(part, key)
        if len(part) > 2 * PART_KEYS:
            self._parts.insert(position + 1, part[PART_KEYS:])
            del part[PART_KEYS:]
            self._lasts.insert(position, part[-1])

    def remove(self, key: bytes) -> None:
        """Remove a key that is in the set."""
        position = bisect_left(self._lasts, key)
        part = self._parts[position]
        del part[bisect_left(part, key)]
        if not part:
            del self._parts[position]
            del self._lasts[position]
        elif key == self._lasts[position]:
            self._lasts[position] = part[-1]

    def first(self) -> bytes | None:
        """The smallest key."""
        return self._parts[0][0] if self._parts else None

    def after(self, key: bytes) -> bytes | None:
        """The smallest key greater than `key`."""
        position = bisect_right(self._lasts, key)
        if position == len(self._parts):
            return None
        part = self._parts[position]
        return part[bisect_right(part, key)]

    def walk(self, begin: bytes, end: bytes | None) -> Iterator[bytes]:
        """The keys of `[begin, end)`, ascending; the set must not change meanwhile."""
        for position in range(bisect_left(self._lasts, begin), len(self._parts)):
            part = self._parts[position]
            low = bisect_left(part, begin)
            high = len(part) if end is None else bisect_left(part, end)
            yield from part[low:high]
            if high < len(part):
                return

    def walk_back(self, begin: bytes, end: bytes | None) -> Iterator[bytes]:
        """The keys of `[begin, end)`, descending."""
        start = (
            len(self._parts) - 1 if end is None else min(bisect_left(self._lasts, end), len(self._parts) - 1)
        )
        for position in range(start, -1, -1):
            part = self._parts[position]
            low = bisect_left(part, begin)
            high = len(part) if end is None else bisect_left(part, end)
            yield from reversed(part[low:high])
            if low > 0:
                return
