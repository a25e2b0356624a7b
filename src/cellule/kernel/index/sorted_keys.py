"""A sorted set of keys in memory: cheap to add to, to take the first from, and to walk.

A list of short sorted lists: adding moves at most one of them. Rejected: one sorted list, which moves
megabytes at every put once it holds 100,000 keys. Rejected: a heap, which cannot be walked or removed from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any

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


class Delta:
    """A layer of changes to a list that are not yet in a root (`unsure`: only the root can tell).

    `added` holds the layer's own entries, `hidden` the keys under which nothing below the layer shows. A key
    put without knowing what is below is in both; a key *inserted* is new below too, so that removing it again
    leaves no trace: timers that are set and fire between two snapshots cost nothing in the end.
    """

    __slots__ = ("added", "count", "hidden", "keys", "passed", "unsure")

    def __init__(self) -> None:
        self.added: dict[bytes, Any] = {}
        self.keys = SortedKeys()
        self.hidden: set[bytes] = set()
        self.count = 0
        self.unsure: set[bytes] = set()
        self.passed: bytes | None = None  # every key up to here is hidden by newer layers

    def hold(self, key: bytes, value: Any) -> None:
        """Take an entry, or another value for it."""
        if key not in self.added:
            self.keys.add(key)
        self.added[key] = value

    def drop(self, key: bytes) -> None:
        """Let an entry go."""
        del self.added[key]
        self.keys.remove(key)

    def walk(self, begin: bytes, end: bytes | None, *, reverse: bool) -> Iterator[bytes]:
        """The layer's own keys in `[begin, end)`."""
        return self.keys.walk_back(begin, end) if reverse else self.keys.walk(begin, end)

    def changed(self) -> set[bytes]:
        """Every key for which the layer differs, or may differ, from what is below."""
        return self.hidden | self.added.keys()
