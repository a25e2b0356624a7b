"""The waiting `watch` calls of one engine, found by a short hash of their key.

Whoever learns that a key may have changed wakes its watches: a commit of this process, a notice from another
one, the regular look. Waking for nothing is allowed, missing a change is not: a watch is added before the
key is read, and everything that may have been missed wakes all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from zlib import crc32

from cellule.errors import CelluleError
from cellule.store.engine import Batch, Stamp

hash_of = crc32
"""32 bits of a key: two keys that share them only wake each other for nothing."""


class Watch:
    """One waiting call; `woken` ends it."""

    __slots__ = ("key", "seen", "woken")

    def __init__(self, key: bytes, seen: bytes | None) -> None:
        self.key = key
        self.seen = seen
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """Let the call return."""
        if not self.woken.done():
            self.woken.set_result(None)

    def fail(self, error: CelluleError) -> None:
        """Let the call raise."""
        if not self.woken.done():
            self.woken.set_exception(error)


class Watches:
    """All waiting calls."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Watch]] = {}

    def add(self, key: bytes, seen: bytes | None) -> Watch:
        """Begin to wait."""
        watch = Watch(key, seen)
        self._waiting.setdefault(hash_of(key), []).append(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Forget a watch, woken or not."""
        hashed = hash_of(watch.key)
        waiting = self._waiting[hashed]
        waiting.remove(watch)
        if not waiting:
            del self._waiting[hashed]
        if watch.woken.done() and not watch.woken.cancelled():
            watch.woken.exception()

    def wake(self, hashes: Iterable[int]) -> None:
        """Wake the watches of keys with these hashes."""
        if not self._waiting:
            return
        for hashed in hashes:
            for watch in self._waiting.get(hashed, ()):
                watch.wake()

    def wake_all(self) -> None:
        """Wake every watch: something may have been missed."""
        for watch in self.all():
            watch.wake()

    def fail_all(self, error: CelluleError) -> None:
        """Let every waiting call raise `error`."""
        for watch in self.all():
            watch.fail(error)

    def all(self) -> list[Watch]:
        """The watches waiting now."""
        return [watch for waiting in self._waiting.values() for watch in waiting]


def written_hashes(batch: Batch, stamps: Sequence[Stamp]) -> set[int] | None:
    """Return the hashes of the keys a batch writes; `None` stands for any key: a range was cleared."""
    if batch.clear_range:
        return None
    hashes = {hash_of(key) for keys in (batch.set, batch.clear, batch.add) for key in keys}
    hashes.update(hash_of(prefix + stamp) for (prefix, _), stamp in zip(batch.ordered, stamps, strict=True))
    return hashes
