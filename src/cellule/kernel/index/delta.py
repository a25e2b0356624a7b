"""A layer of changes to a list that are not yet in a root.

`added` holds the layer's own entries, `hidden` the keys under which nothing below the layer shows. A key put
without knowing what is below is in both; a key *inserted* is new below too, so that removing it again
leaves no trace: timers that are set and fire between two snapshots cost nothing in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cellule.kernel.index.sorted_keys import SortedKeys


class Delta:
    """Puts and removals, and how they change the number of entries (`unsure`: only the root can tell)."""

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
