"""The live view of one module's cells: a root, and the changes that are not yet in one.

    read:   dirty layer -> young -> frozen layers, newest first -> old -> the root (by `load`)

`put` and `delete` go to the dirty layer. `freeze` closes it; `materialise` turns all frozen layers into a new
root in slices while new writes go on, and reads are right at every pause. Clean entries live in two
generations: the young one becomes the old one when it is full, and what is found in the old one moves to
the young one. So a hit costs a dict probe or two and no reordering.

A clean copy never outlives a change: no changed key is in the young generation, and when a layer has been
written its entries replace those of the old one.

Rejected: one ordered LRU. Reordering on every hit costs more than the hit.
Rejected: an object per entry. A million of them slow every run of the garbage collector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, NamedTuple

from cellule.errors import ensure
from cellule.kernel.index.chunk import CELLS, Value
from cellule.kernel.index.layer import MISSING, Entry, Layer, Missing, Spill
from cellule.kernel.index.read import lookup, scan
from cellule.kernel.index.write import SLICE_CHUNKS, Materialised, sorted_union, update_from
from cellule.kernel.need import Need, Nodes, Pause
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import Cid

__all__ = ["DIRTY_BYTES_MAX", "MISSING", "LiveIndex", "Missing", "Page", "Spill"]

DIRTY_BYTES_MAX = 64_000_000


class Page(NamedTuple, Generic[Entry]):
    """Some entries in key order; the next page begins with the key `next`, None at the end."""

    entries: list[tuple[bytes, Entry]]
    next: bytes | None


class LiveIndex(Generic[Entry]):
    """One module's cells. Entries are opaque tuples; `unpack(pack(entry))` must equal `entry`.

    `count` is the number of entries in `root`. With a `spill`, changed entries beyond `dirty_bytes_max` leave
    memory; `spill_pack` and `spill_unpack` say how, where `pack` does more than make a value.
    """

    def __init__(
        self, root: Cid | None, nodes: Nodes, *, pack: Callable[[Entry], Value],
        unpack: Callable[[Value], Entry], weigh: Callable[[Entry], int], hot_max: int,
        spill: Spill | None = None, dirty_bytes_max: int = DIRTY_BYTES_MAX, count: int = 0,
        spill_pack: Callable[[Entry], Value] | None = None,
        spill_unpack: Callable[[Value], Entry] | None = None,
    ) -> None:  # fmt: skip
        self._root = root
        self._nodes = nodes
        self._pack = pack
        self._unpack = unpack
        self._spill_pack = spill_pack or pack
        self._spill_unpack = spill_unpack or unpack
        self._generation_max = hot_max // 2
        self._spill = spill
        self._dirty_bytes_max = dirty_bytes_max
        self._frozen_bytes = 0
        self._weigh = weigh
        self._root_count = count
        self._dirty: Layer[Entry] = Layer()
        self._frozen: list[Layer[Entry]] = []  # oldest first
        self._writing = False
        self._young: dict[bytes, Entry | None] = {}
        self._old: dict[bytes, Entry | None] = {}

    @property
    def root(self) -> Cid | None:
        """The last root materialised; it holds nothing that changed since."""
        return self._root

    @property
    def root_count(self) -> int:
        """The number of entries in `root`."""
        return self._root_count

    @property
    def dirty_bytes(self) -> int:
        """About how much memory the entries take that are in no root yet."""
        return self._dirty.bytes_held + self._frozen_bytes

    @property
    def changed(self) -> int:
        """How many entries changed since the last root was begun."""
        return len(self._dirty.entries) + len(self._dirty.spilled)

    def cached(self, key: bytes) -> Entry | Missing | None:
        """The entry of `key`, None where there is none, or `MISSING` where only the root can tell."""
        entry: Entry | Missing | None = self._dirty.entries.get(key, MISSING)
        if entry is not MISSING:
            return entry
        entry = self._young.get(key, MISSING)
        if entry is not MISSING:
            return entry
        return self._cached_below(key)

    def load(self, keys: Collection[bytes]) -> Generator[Need, None, dict[bytes, Entry | None]]:
        """The entries of all `keys`, None where there is none; what the root was read for is cached."""
        while True:
            before: dict[bytes, Entry | None] = {}
            missing = self._split(keys, before)
            if not missing:
                return before
            root = self._root
            found = yield from lookup(root, missing, self._nodes)
            # The walk may have waited, and a snapshot may have moved entries into a newer root meanwhile.
            if root == self._root:
                return self._loaded(keys, before, found)

    def scan(self, begin: bytes, end: bytes | None, limit: int) -> Generator[Need, None, Page[Entry]]:
        """Up to `limit` entries of `[begin, end)` in key order, and the key the next page begins with."""
        while True:
            root = self._root
            stored = yield from scan(root, begin, end, limit, self._nodes, is_hidden=self._is_changed)
            if root == self._root:
                return self._page(stored, begin, end, limit)

    def _is_changed(self, key: bytes) -> bool:
        return any(key in layer.entries or key in layer.spilled for layer in (*self._frozen, self._dirty))

    def _page(
        self, stored: list[tuple[bytes, Value]], begin: bytes, end: bytes | None, limit: int
    ) -> Page[Entry]:
        """What was found in the root, with the changes in memory."""
        # A full page of the root says nothing of keys behind its last: changes there are the next page's.
        until = stored[-1][0] + b"\0" if len(stored) == limit else end
        layers = (*self._frozen, self._dirty)
        found = {key: self._unpack(value) for key, value in stored}
        changed = merge(*(layer.walk(begin, until) for layer in layers))
        room = limit
        for key, _ in groupby(changed):
            entry = self._layered(layers, key)
            found.pop(key, None)
            if entry is not None:
                found[key] = entry
                room -= 1
            # So many changed entries alone fill a page; what the root has behind them is not this page's.
            if not room:
                until = min(until or key + b"\0", key + b"\0")
                break
        entries = sorted(found.items(), key=itemgetter(0))[:limit]
        # What follows a full page is not looked at, so that it ends alike wherever its entries are.
        following = entries[-1][0] + b"\0" if len(entries) == limit else end
        return Page(entries, None if following == end else following)

    @property
    def recent(self) -> dict[bytes, Entry | None]:
        """The newest changes, None for what was removed. Entries may be replaced in place, with `grow`.

        It is another one after `freeze`.
        """
        return self._dirty.entries

    def grow(self, size: int) -> None:
        """Entries of `recent` were replaced in place, and weigh so much more."""
        self._dirty.bytes_held += size
        if self.dirty_bytes > self._dirty_bytes_max and self._spill is not None:
            self._trim(self._spill)

    def put(self, key: bytes, entry: Entry) -> None:
        """Change or create the entry of `key`."""
        dirty = self._dirty
        prior: Any = dirty.entries.get(key, MISSING)
        if prior is MISSING:
            prior = self._supersede(key)
        elif prior is not None:
            dirty.bytes_held -= self._weigh(prior)
        dirty.entries[key] = entry
        dirty.bytes_held += self._weigh(entry)
        if prior is None:
            if key not in dirty.unsure:
                dirty.added += 1
        # Nobody read this key, so whether it is one more entry is found out when somebody counts.
        elif prior is MISSING:
            dirty.unsure.add(key)
        if dirty.bytes_held + self._frozen_bytes > self._dirty_bytes_max and self._spill is not None:
            self._trim(self._spill)

    def delete(self, key: bytes) -> None:
        """Remove the entry of `key`, if there is one."""
        dirty = self._dirty
        prior: Any = dirty.entries.get(key, MISSING)
        if prior is MISSING:
            prior = self._supersede(key)
            if prior is None:
                # There was none, so no layer has to hide anything.
                self._remember(key, None)
                return
        elif prior is None:
            return
        else:
            dirty.bytes_held -= self._weigh(prior)
        dirty.entries[key] = None
        if prior is MISSING:
            dirty.unsure.add(key)
        elif key not in dirty.unsure:
            dirty.added -= 1

    def count(self) -> Generator[Need, None, int]:
        """The number of entries; reads the root only for keys that were changed without being read."""
        layers = [*self._frozen, self._dirty]
        total = self._root_count + sum(layer.added for layer in layers)
        unsure = {key: layer for layer in layers for key in layer.unsure}
        if unsure:
            after = sum(layer.has_entry(key) for key, layer in unsure.items())
            before = yield from lookup(self._root, unsure, self._nodes)
            total += after - len(before)
        return total

    def freeze(self) -> None:
        """Close the dirty layer: the next `materialise` writes it, later changes are not in it."""
        if self._dirty.entries or self._dirty.spilled:
            self._frozen.append(self._dirty)
            self._frozen_bytes += self._dirty.bytes_held
            self._dirty = Layer()

    def materialise(self, slice_nodes: int = SLICE_CHUNKS) -> Generator[Need | Pause, None, Materialised]:
        """Write what is frozen when the walk begins into a new root; dropped half-way, it changed nothing."""
        ensure(not self._writing, "kernel.materialise_twice", "an index is being materialised already")
        layers = tuple(self._frozen)
        if not layers:
            return Materialised(self._root, {})
        self._writing = True
        try:
            keys = yield from sorted_union([layer.changed() for layer in layers], slice_nodes)
            done = yield from update_from(
                self._root, keys, lambda key: self._value(layers, key), self._nodes, CELLS,
                slice_nodes=slice_nodes,
            )  # fmt: skip
        finally:
            self._writing = False
        self._nodes.pin(done.blocks)
        self._root = done.root
        self._root_count += done.added
        count = self._root_count
        ensure(count >= 0, "kernel.index_count", "an index has {count} entries", count=count)
        self._retire(layers)
        return Materialised(done.root, done.blocks)

    # Reading below the dirty layer

    def _cached_below(self, key: bytes) -> Entry | Missing | None:
        dirty = self._dirty
        if dirty.spilled and key in dirty.spilled:
            entry = self._unspilled(dirty.spilled.pop(key), drop=True)
            dirty.entries[key] = entry
            dirty.bytes_held += self._weigh(entry)
            return entry
        for layer in reversed(self._frozen):
            held: Entry | Missing | None = layer.entries.get(key, MISSING)
            if held is not MISSING:
                return held
            if key in layer.spilled:
                return self._unspilled(layer.spilled[key], drop=False)
        clean: Any = self._old.pop(key, MISSING)
        if clean is not MISSING:
            self._remember(key, clean)
        return clean  # type: ignore[no-any-return]

    def _supersede(self, key: bytes) -> Any:
        """What was under a key that the dirty layer is about to hold; its young and spilled copies go."""
        if self._dirty.spilled:
            slot = self._dirty.spilled.pop(key, None)
            if slot is not None and self._spill is not None:
                self._spill.drop(slot)
                return ()
        prior: Any = self._young.pop(key, MISSING)
        if prior is not MISSING:
            return prior
        for layer in reversed(self._frozen):
            prior = layer.entries.get(key, MISSING)
            if prior is not MISSING:
                return prior
            if key in layer.spilled:
                return ()
        return self._old.pop(key, MISSING)

    def _loaded(
        self, keys: Collection[bytes], before: dict[bytes, Entry | None], found: dict[bytes, Value]
    ) -> dict[bytes, Entry | None]:
        """What is cached now; else what was before the root was read, or what was found in it."""
        entries: dict[bytes, Entry | None] = {}
        for key in self._split(keys, entries):
            if key in before:
                entries[key] = before[key]
                continue
            value = found.get(key)
            entries[key] = entry = None if value is None else self._unpack(value)
            self._remember(key, entry)
        return entries

    def _split(self, keys: Collection[bytes], entries: dict[bytes, Entry | None]) -> list[bytes]:
        """Put what is cached into `entries` and return the other keys."""
        missing = []
        for key in keys:
            entry: Any = self.cached(key)
            if entry is MISSING:
                missing.append(key)
            else:
                entries[key] = entry
        return missing

    def _remember(self, key: bytes, entry: Entry | None) -> None:
        self._young[key] = entry
        if len(self._young) > self._generation_max:
            self._old = self._young
            self._young = {}

    # Layers leave memory

    def _trim(self, spill: Spill) -> None:
        """Spill down to three quarters of the budget, so that it does not happen at every put."""
        # Frozen layers go first: they are read less, and a snapshot reads them once and in order.
        excess = self.dirty_bytes - self._dirty_bytes_max * 3 // 4
        for layer in (*self._frozen, self._dirty):
            if excess > 0:
                excess = layer.spill(spill, self._spill_data, self._weigh, excess)
        self._frozen_bytes = sum(layer.bytes_held for layer in self._frozen)

    def _spill_data(self, entry: Entry) -> bytes:
        return encode(self._spill_pack(entry))

    def _unspilled(self, slot: int, *, drop: bool) -> Entry:
        assert self._spill is not None
        entry = self._spill_unpack(decode_trusted(self._spill.get(slot)))
        if drop:
            self._spill.drop(slot)
        return entry

    def _value(self, layers: Sequence[Layer[Entry]], key: bytes) -> Value | None:
        """What the newest of these layers holds for a key that one of them holds, as the root stores it."""
        entry = self._layered(layers, key)
        return None if entry is None else self._pack(entry)

    def _layered(self, layers: Sequence[Layer[Entry]], key: bytes) -> Entry | None:
        for layer in reversed(layers):
            entry: Any = layer.entries.get(key, MISSING)
            if entry is not MISSING:
                return entry  # type: ignore[no-any-return]
            slot = layer.spilled.get(key)
            if slot is not None:
                return self._unspilled(slot, drop=False)
        return None

    def _retire(self, layers: Sequence[Layer[Entry]]) -> None:
        """Written layers become clean entries of the old generation, as far as it has room."""
        del self._frozen[: len(layers)]
        self._frozen_bytes = sum(layer.bytes_held for layer in self._frozen)
        for layer in layers:
            if len(self._old) + len(layer.entries) <= self._generation_max:
                self._old.update(layer.entries)
                for key in layer.spilled:
                    self._old.pop(key, None)
            else:
                self._old = layer.entries if len(layer.entries) <= self._generation_max else {}
            for slot in layer.spilled.values():
                assert self._spill is not None
                self._spill.drop(slot)
