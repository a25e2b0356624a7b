"""The live view of a list: a root, frozen layers, and the layer that takes changes.

A read merges them: an entry shows unless a newer layer hides its key. Taking entries from the front is
cheap however many were taken before: below the newest layer every source remembers how far its front is
hidden already. `freeze` and `materialise` work as with cells.

Rejected: applying removals to the root at once. Every timer that fires would write a path of chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from cellule.errors import ensure
from cellule.kernel.index.chunk import LISTS
from cellule.kernel.index.cursor import Cursor
from cellule.kernel.index.layer import MISSING
from cellule.kernel.index.read import Entry, check_limit, lookup, scan
from cellule.kernel.index.sorted_keys import Delta
from cellule.kernel.index.write import SLICE_CHUNKS, Materialised, sorted_union, update_from
from cellule.kernel.need import Need, Nodes, Pause
from cellule.values.cid import Cid

Row = TypeVar("Row")


def _as_stored(value: Any) -> Any:
    return value


class OrderedIndex(Generic[Row]):
    """Rows by ascending byte keys. `count` is the number of rows in `root`. A row is never None.

    `unpack` makes a row of what a chunk holds, and proves it.
    """

    def __init__(
        self, root: Cid | None, nodes: Nodes, *, count: int = 0, unpack: Callable[[Any], Row] = _as_stored
    ) -> None:
        self._root = root
        self._unpack = unpack
        self._nodes = nodes
        self._root_count = count
        self._dirty = Delta()
        self._frozen: list[Delta] = []  # oldest first
        self._writing = False
        self._front: Cursor | None = None  # at the first root entry that is not hidden
        self._front_at = 0
        self._front_past = False  # no root entry is left
        self._warm: dict[bytes, Row | None] = {}  # root entries that were read together, until `cool`

    @property
    def root(self) -> Cid | None:
        """The last root materialised; it holds nothing that changed since."""
        return self._root

    @property
    def root_count(self) -> int:
        """The number of entries in `root`."""
        return self._root_count

    @property
    def is_empty(self) -> bool:
        """Tell, without reading, whether there is certainly no entry."""
        return self._root is None and not self._frozen and not self._dirty.added

    # Changes

    def put(self, key: bytes, value: Row) -> None:
        """Set the entry of `key`, whether or not there is one."""
        dirty = self._dirty
        if key not in dirty.added:
            self._account(key, now=True)
        dirty.hold(key, value)
        # What is below stays hidden also if this entry is removed again.
        dirty.hidden.add(key)

    def insert(self, key: bytes, value: Row) -> None:
        """Set the entry of a key that has none; the caller knows, and this is checked only in memory."""
        dirty = self._dirty
        if key in dirty.added:
            ensure(False, "kernel.index_insert", "key {key} is inserted twice", key=key)
        dirty.keys.add(key)
        dirty.added[key] = value
        if key not in dirty.unsure:
            dirty.count += 1

    def remove(self, key: bytes) -> None:
        """Remove the entry of a key that has one; the caller knows, and this is checked only in memory."""
        dirty = self._dirty
        if key in dirty.added:
            dirty.drop(key)
        else:
            is_there = key not in dirty.hidden
            ensure(is_there, "kernel.index_remove", "key {key} is removed, and has no entry", key=key)
            dirty.hidden.add(key)
        if key not in dirty.unsure:
            dirty.count -= 1

    def delete(self, key: bytes) -> None:
        """Remove the entry of `key`, if there is one."""
        dirty = self._dirty
        if key in dirty.added:
            self.remove(key)
        elif key not in dirty.hidden:
            self._account(key, now=False)
            dirty.hidden.add(key)

    def freeze(self) -> None:
        """Close the newest layer: the next `materialise` writes it, later changes are not in it."""
        if self._dirty.added or self._dirty.hidden:
            self._frozen.append(self._dirty)
            self._dirty = Delta()

    def materialise(
        self, slice_nodes: int = SLICE_CHUNKS, pack: Callable[[Any], Any] | None = None
    ) -> Generator[Need | Pause, None, Materialised]:
        """Write what is frozen when the walk begins into a new root; dropped half-way, it changed nothing.

        `pack` makes a value as the root stores it.
        """
        ensure(not self._writing, "kernel.materialise_twice", "an index is being materialised already")
        layers = tuple(self._frozen)
        if not layers:
            return Materialised(self._root, {})
        self._writing = True
        try:
            keys = yield from sorted_union([layer.changed() for layer in layers], slice_nodes)
            done = yield from update_from(
                self._root, keys, lambda key: _newest(layers, key, pack), self._nodes, LISTS,
                slice_nodes=slice_nodes,
            )  # fmt: skip
        finally:
            self._writing = False
        self._nodes.pin(done.blocks)
        self._root = done.root
        self._root_count += done.added
        count = self._root_count
        ensure(count >= 0, "kernel.index_count", "an index has {count} entries", count=count)
        del self._frozen[: len(layers)]
        self._front, self._front_past = None, False
        self._warm.clear()
        return Materialised(done.root, done.blocks)

    # Reads

    def held(self, key: bytes) -> Any:
        """The value of a key that changed since the root was written, None if removed; else `MISSING`."""
        return self._in_memory(key)

    def get(self, key: bytes) -> Generator[Need, None, Row | None]:
        """The value of `key`, or None."""
        held: Any = self._in_memory(key)
        if held is not MISSING:
            value: Row | None = held
            return value
        if key in self._warm:
            return self._warm[key]
        found = yield from lookup(self._root, (key,), self._nodes)
        return self._unpack(found[key]) if key in found else None

    def warm(self, keys: Iterable[bytes]) -> Generator[Need, None, None]:
        """Read entries that will be asked for soon, all together; a chunk is then decoded once for many."""
        wanted = {key for key in keys if key not in self._warm and self._in_memory(key) is MISSING}
        if len(wanted) > 1:
            found = yield from lookup(self._root, wanted, self._nodes)
            self._warm.update((key, self._unpack(found[key]) if key in found else None) for key in wanted)

    def cool(self) -> None:
        """Forget what `warm` read."""
        self._warm.clear()

    def first(self) -> Generator[Need, None, tuple[bytes, Row] | None]:
        """The entry with the smallest key."""
        best: tuple[bytes, Row] | None = None
        layers = [*self._frozen, self._dirty]
        for position, layer in enumerate(layers):
            key = self._first_of(layer, layers[position + 1 :])
            if key is not None and (best is None or key <= best[0]):
                best = (key, layer.added[key])
        yield from self._advance()
        if self._front is not None and not self._front_past:
            key = self._front.chunk.keys[self._front_at]
            if best is None or key < best[0]:
                best = (key, self._unpack(self._front.chunk.value(self._front_at)))
        return best

    def scan(
        self, begin: bytes, end: bytes | None, limit: int, *, reverse: bool = False
    ) -> Generator[Need, None, list[tuple[bytes, Row]]]:
        """Up to `limit` entries of `[begin, end)` (to the end where `end` is None), in key order."""
        check_limit(limit)
        layers = [*self._frozen, self._dirty]
        at_rest = yield from self._scan_root(begin, end, limit, reverse=reverse)
        found: dict[bytes, Row] = {key: self._unpack(value) for key, value in at_rest}
        for position, layer in enumerate(layers):
            shown = _shown(layer.walk(begin, end, reverse=reverse), layers[position + 1 :])
            found.update((key, layer.added[key]) for key in islice(shown, limit))
        return sorted(found.items(), reverse=reverse, key=_key)[:limit]

    def count(self) -> Generator[Need, None, int]:
        """The number of entries; reads the root only for keys changed without knowing what was there."""
        layers = [*self._frozen, self._dirty]
        total = self._root_count + sum(layer.count for layer in layers)
        unsure = {key: layer for layer in layers for key in layer.unsure}
        if unsure:
            after = sum(key in layer.added for key, layer in unsure.items())
            before = yield from lookup(self._root, unsure, self._nodes)
            total += after - len(before)
        return total

    # Memory

    def _in_memory(self, key: bytes) -> Any:
        for layer in (self._dirty, *reversed(self._frozen)):
            if key in layer.added:
                return layer.added[key]
            if key in layer.hidden:
                return None
        return MISSING

    def _account(self, key: bytes, *, now: bool) -> None:
        """Count a key that the newest layer is about to add or hide, and does not hold yet."""
        if key in self._dirty.unsure:
            return
        value = self._in_memory(key)
        if value is MISSING:
            self._dirty.unsure.add(key)
        else:
            self._dirty.count += now - (value is not None)

    def _first_of(self, layer: Delta, newer: Sequence[Delta]) -> bytes | None:
        """The smallest key of a layer that newer ones do not hide; how far they do is remembered."""
        key = layer.keys.first() if layer.passed is None else layer.keys.after(layer.passed)
        while key is not None and _is_hidden(key, newer):
            layer.passed = key
            key = layer.keys.after(key)
        return key

    # The root

    def _advance(self) -> Generator[Need, None, None]:
        """Move the front to the first root entry that no layer hides."""
        if self._root is None or self._front_past:
            return
        if self._front is None:
            front = Cursor(self._root, self._nodes)
            yield from front.open()
            yield from front.seek(b"")
            self._front, self._front_at = front, 0
        layers = (*self._frozen, self._dirty)
        while True:
            keys = self._front.chunk.keys
            while self._front_at < len(keys):
                if not _is_hidden(keys[self._front_at], layers):
                    return
                self._front_at += 1
            if not (yield from self._front.next()):
                self._front_past = True
                return
            self._front_at = 0

    def _scan_root(
        self, begin: bytes, end: bytes | None, limit: int, *, reverse: bool
    ) -> Generator[Need, None, list[Entry]]:
        if self._root is None:
            return []
        if not reverse:
            yield from self._advance()
            if self._front is None or self._front_past:
                return []
            first = self._front.chunk.keys[self._front_at]
            if end is not None and first >= end:
                return []
            begin = max(begin, first)
        layers = (*self._frozen, self._dirty)
        return (
            yield from scan(
                self._root, begin, end, limit, self._nodes, reverse=reverse,
                is_hidden=lambda key: _is_hidden(key, layers),
            )
        )  # fmt: skip


def _is_hidden(key: bytes, layers: Sequence[Delta]) -> bool:
    return any(key in layer.hidden for layer in layers)


def _shown(keys: Iterator[bytes], newer: Sequence[Delta]) -> Iterator[bytes]:
    return (key for key in keys if not _is_hidden(key, newer)) if newer else keys


def _key(entry: tuple[bytes, Any]) -> bytes:
    return entry[0]


def _newest(layers: Sequence[Delta], key: bytes, pack: Callable[[Any], Any] | None) -> Any:
    for layer in reversed(layers):
        if key in layer.added:
            value = layer.added[key]
            return value if pack is None else pack(value)
        if key in layer.hidden:
            return None
    return None
