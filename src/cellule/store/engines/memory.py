"""The memory engine: the contract in its plainest form, the oracle of the other engines.

A `MemoryDisk` is the store, a `MemoryEngine` one node's connection to it; many engines may share a disk. All
belong to one event loop. A commit is applied between two turns of the loop, as a whole: one turn passes
before it (others may come first) and one after it (others may see it before the caller knows), as with a
real database. Nothing is random: the same order of turns gives the same rows and stamps. Rows are stored
sealed, so that damage is found here too. Faults are injected from outside, by `cellule.testing`.

Rejected: applying at once, without a turn. Code that is right only because nothing intervenes would pass.
Rejected: a balanced tree. A sorted list, merged before a scan, is faster at the sizes tests have, and simple.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from cellule.errors import Conflict, Unavailable
from cellule.store.engine import (
    PAGE_BYTES_MAX,
    Batch,
    Page,
    Row,
    Stamp,
    check_batch,
    check_key,
    check_scan,
)
from cellule.store.families import check_one_family
from cellule.store.resource import Resource
from cellule.store.rows import add_counter, open_row, seal_row

ORDER_BYTES = 10
MERGE_SINGLY_MAX = 32
PAGE_ROWS = 1_000


class MemoryDisk:
    """The rows, the stamp counter and the waiting watches of one store."""

    def __init__(self, rows: Mapping[bytes, bytes] | None = None, stamps: int = 0) -> None:
        self._rows = dict(rows or {})
        self._keys = _SortedKeys(self._rows)
        self._stamps = stamps
        self._watches: dict[bytes, list[_Watch]] = {}

    def next_stamp(self) -> bytes:
        """Take the next 10 bytes of commit order; a stamp is these and 2 bytes of position.

        Taken early and committed late, by `set`, they make a stamp that becomes visible after a larger one.
        """
        self._stamps += 1
        return self._stamps.to_bytes(ORDER_BYTES, "big")

    def dump(self) -> dict[bytes, bytes]:
        """Return all keys and values, in key order; `Corrupted` if a row is damaged."""
        return {key: open_row(key, self._rows[key]) for key in sorted(self._rows)}

    def fork(self) -> MemoryDisk:
        """Return an independent copy: what another machine would find if this one stopped now."""
        return MemoryDisk(self._rows, self._stamps)

    def damage(self, key: bytes, bit: int = 0) -> None:
        """Flip one bit of the stored row under `key`, behind the engine's back."""
        row = bytearray(self._rows[key])
        row[bit // 8] ^= 1 << bit % 8
        self._rows[key] = bytes(row)

    def value(self, key: bytes) -> bytes | None:
        """Return the value of `key` now; `Corrupted` if its row is damaged."""
        stored = self._rows.get(key)
        return None if stored is None else open_row(key, stored)

    def page(self, begin: bytes, end: bytes, limit: int, reverse: bool) -> Page:
        """Return one page of `[begin, end)` as it is now."""
        keys = self._keys.between(begin, end, limit + 1, reverse)
        items: list[tuple[bytes, bytes]] = []
        size = 0
        for key in keys[:limit]:
            value = open_row(key, self._rows[key])
            size += len(key) + len(value)
            if items and size > PAGE_BYTES_MAX:
                break
            items.append((key, value))
        return Page(items, more=len(items) < len(keys))

    def apply(self, batch: Batch) -> list[Stamp]:
        """Compare, then write the whole of a checked batch, wake the watches, return the stamps."""
        for key, expected in batch.expect.items():
            if self.value(key) != expected:
                raise Conflict("store.conflict", "key {key} holds another value than expected", key=key)
        changes, stamps = self._changes(batch)
        for key, stored in changes.items():
            self._store(key, stored)
        self._wake(changes)
        return stamps

    def add_watch(self, watch: _Watch) -> None:
        """Have `watch` woken by the next commit that gives its key another value than it has seen."""
        self._watches.setdefault(watch.key, []).append(watch)

    def remove_watch(self, watch: _Watch) -> None:
        """Forget a watch."""
        waiting = self._watches[watch.key]
        waiting.remove(watch)
        if not waiting:
            del self._watches[watch.key]

    def _changes(self, batch: Batch) -> tuple[dict[bytes, bytes | None], list[Stamp]]:
        changes: dict[bytes, bytes | None] = {}
        for begin, end in batch.clear_range:
            changes.update(dict.fromkeys(self._keys.between(begin, end)))
        changes.update(dict.fromkeys(batch.clear))
        for key, value in batch.set.items():
            changes[key] = seal_row(key, value)
        for key, delta in batch.add.items():
            before = None if key in changes else self._rows.get(key)
            changes[key] = add_counter(key, before, delta)
        order = self.next_stamp() if batch.ordered else b""
        stamps = [Stamp(order + place.to_bytes(2, "big")) for place in range(len(batch.ordered))]
        for (prefix, value), stamp in zip(batch.ordered, stamps, strict=True):
            changes[prefix + stamp] = seal_row(prefix + stamp, value)
        return changes, stamps

    def _store(self, key: bytes, stored: bytes | None) -> None:
        if stored is None:
            if self._rows.pop(key, None) is not None:
                self._keys.remove(key)
            return
        if key not in self._rows:
            self._keys.add(key)
        self._rows[key] = stored

    def _wake(self, changed: Iterable[bytes]) -> None:
        if not self._watches:
            return
        for key in changed:
            for watch in self._watches.get(key, ()):
                if self.value(key) != watch.seen and not watch.woken.done():
                    watch.woken.set_result(None)


class MemoryEngine(Resource):
    """One connection to a `MemoryDisk`; an `Engine`. Resource it leaves the disk to the others."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self._closed = False
        self._commits_running = 0
        self._watches: list[_Watch] = []

    async def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Engine.read`."""
        self._check_open()
        for key in keys:
            check_key(key)
        await _turn()
        values = [self.disk.value(key) for key in keys]
        await _turn()
        return values

    async def scan(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Page:
        """See `Engine.scan`."""
        self._check_open()
        check_scan(begin, end, limit)
        check_one_family(begin, end)
        await _turn()
        page = self.disk.page(begin, end, limit, reverse)
        await _turn()
        return page

    async def rows(self) -> AsyncGenerator[list[Row], None]:
        """See `Engine.rows`; the snapshot is a copy."""
        self._check_open()
        found = list(self.disk.dump().items())
        for start in range(0, len(found), PAGE_ROWS):
            await _turn()
            yield found[start : start + PAGE_ROWS]

    async def commit(self, batch: Batch) -> list[Stamp]:
        """See `Engine.commit`. Cancelled in its first turn it is not applied, in its last it is."""
        self._check_open()
        check_batch(batch)
        for begin, end in batch.clear_range:
            check_one_family(begin, end)
        with self._running():
            await _turn()
            stamps = self.disk.apply(batch)
            await _turn()
            return stamps

    async def watch(self, key: bytes, seen: bytes | None) -> None:
        """See `Engine.watch`; never returns for nothing."""
        self._check_open()
        check_key(key)
        await _turn()
        self._check_open()
        if self.disk.value(key) != seen:
            return
        watch = _Watch(key, seen)
        self._watches.append(watch)
        self.disk.add_watch(watch)
        try:
            await watch.woken
        finally:
            self._watches.remove(watch)
            self.disk.remove_watch(watch)
        self._check_open()

    async def close(self) -> None:
        """See `Engine.close`."""
        self._closed = True
        for watch in self._watches:
            if not watch.woken.done():
                watch.woken.set_result(None)
        while self._commits_running:
            await _turn()

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._commits_running += 1
        try:
            yield
        finally:
            self._commits_running -= 1


class _Watch:
    """One waiting `watch` call."""

    __slots__ = ("key", "seen", "woken")

    def __init__(self, key: bytes, seen: bytes | None) -> None:
        self.key = key
        self.seen = seen
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class _SortedKeys:
    """The keys of a growing and shrinking set, sorted when somebody looks."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._sorted = sorted(keys)
        self._added: set[bytes] = set()
        self._removed: set[bytes] = set()

    def add(self, key: bytes) -> None:
        """Add a key that is not there."""
        if key in self._removed:
            self._removed.remove(key)
        else:
            self._added.add(key)

    def remove(self, key: bytes) -> None:
        """Remove a key that is there."""
        if key in self._added:
            self._added.remove(key)
        else:
            self._removed.add(key)

    def between(
        self, begin: bytes, end: bytes, limit: int | None = None, reverse: bool = False
    ) -> list[bytes]:
        """Return the first keys of `[begin, end)`, at most `limit`; in reverse, the last ones, last first."""
        self._merge()
        low, high = bisect_left(self._sorted, begin), bisect_left(self._sorted, end)
        if limit is None or high - low <= limit:
            keys = self._sorted[low:high]
        else:
            keys = self._sorted[high - limit : high] if reverse else self._sorted[low : low + limit]
        return keys[::-1] if reverse else keys

    def _merge(self) -> None:
        if len(self._added) + len(self._removed) > MERGE_SINGLY_MAX:
            kept = [key for key in self._sorted if key not in self._removed]
            self._sorted = sorted(kept + sorted(self._added))
        else:
            for key in self._removed:
                del self._sorted[bisect_left(self._sorted, key)]
            for key in self._added:
                insort(self._sorted, key)
        self._added.clear()
        self._removed.clear()


async def _turn() -> None:
    """Let the event loop run everybody else once."""
    await asyncio.sleep(0)


def _closed() -> Unavailable:
    return Unavailable("store.closed", "the engine is closed", hint="Open a new one.")
