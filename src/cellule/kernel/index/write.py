"""Changing an index: a batch of puts and removals becomes a new root and its new chunks.

Level by level: the changed chunks of a level are cut anew from where the first change falls until a cut
coincides with an old one, and what was cut differently is the batch of changes for the level above. So the
work is proportional to the change, and the result is what a fresh build of the same entries gives. Changes
are merged and chunks written a few at a time, so memory and the time between two pauses are bounded.

Rejected: one key after the other. Every put would write the path from the root again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from cellule.errors import ensure
from cellule.kernel.index.chunk import LEVEL_MAX, Chunk, Shape, Value, encode_chunk, is_ending
from cellule.kernel.index.cursor import Cursor
from cellule.kernel.need import Need, Nodes, Pause, fetch
from cellule.values.cid import Cid, cid_of

RUN_CHANGES = 1_024  # changes whose chunks are asked for together
MERGE_CHANGES = 128  # changes merged into a chunk at once
SLICE_CHUNKS = 256  # chunks written between two pauses
SLICE_KEYS = 64  # keys sorted count as one chunk written

ValueOf = Callable[[bytes], Value | None]  # the new value (or link) of a key; None removes
_Walk = Generator[Need | Pause, None, Any]
_Links = dict[bytes, bytes]  # the chunks of a level: last key -> link


class Updated(NamedTuple):
    """A new root (None = empty), the blocks it needs that were not taken at a pause, and entries added."""

    root: Cid | None
    blocks: dict[Cid, bytes]
    added: int


class Materialised(NamedTuple):
    """A new root and the blocks it needs that were not taken at a pause; these are pinned in `Nodes`."""

    root: Cid | None
    blocks: dict[Cid, bytes]


def sorted_union(
    parts: Sequence[Collection[bytes]], slice_nodes: int = SLICE_CHUNKS
) -> Generator[Pause, None, list[bytes]]:
    """All keys of the parts, ascending; sorted and merged in runs, so that no slice is long."""
    pause = Pause({})
    most = slice_nodes * SLICE_KEYS
    keys = list(parts[0]) if len(parts) == 1 else list(set().union(*parts))
    if len(keys) <= most:
        return sorted(keys)
    runs: list[list[bytes]] = []
    for start in range(0, len(keys), most):
        runs.append(sorted(keys[start : start + most]))
        yield pause
    merged = merge(*runs)
    ordered: list[bytes] = []
    while some := list(islice(merged, most)):
        ordered += some
        yield pause
    return ordered


def update(
    root: Cid | None, changes: Mapping[bytes, Value | None], nodes: Nodes, shape: Shape,
    *, slice_nodes: int = SLICE_CHUNKS,
) -> Generator[Need | Pause, None, Updated]:  # fmt: skip
    """Apply `changes` (None removes) to `root`; yields `Need`s, and a `Pause` every `slice_nodes` chunks."""
    keys = sorted(changes)
    return (yield from update_from(root, keys, changes.__getitem__, nodes, shape, slice_nodes=slice_nodes))


def build(entries: Mapping[bytes, Value], shape: Shape) -> Updated:
    """An index of these entries, made at once."""
    walk = update(None, entries, Nodes(0), shape)
    while True:
        try:
            next(walk)
        except StopIteration as end:
            made: Updated = end.value
            return made


def update_from(
    root: Cid | None, keys: Sequence[bytes], value_of: ValueOf, nodes: Nodes, shape: Shape,
    *, slice_nodes: int = SLICE_CHUNKS,
) -> Generator[Need | Pause, None, Updated]:  # fmt: skip
    """Like `update`, of ascending `keys`: each value is asked for once, when its chunk is written."""
    work = _Update(root, nodes, shape, slice_nodes)
    made = (yield from work.run(keys, value_of)) if keys else root
    return Updated(made, work.blocks, work.added)


class _Update:
    """One batch on its way up the levels."""

    def __init__(self, root: Cid | None, nodes: Nodes, shape: Shape, slice_nodes: int) -> None:
        self.blocks: dict[Cid, bytes] = {}
        self.added = 0
        self.pause = Pause(self.blocks)
        self._root = root
        self._nodes = nodes
        self._shape = shape
        self._slice_nodes = slice_nodes
        self._written = 0

    def run(self, keys: Sequence[bytes], value_of: ValueOf) -> _Walk:
        """The new root."""
        level = 0
        new: _Links = {}
        if self._root is None:
            new = yield from self._build(0, keys, value_of)
        else:
            top = yield from Cursor(self._root, self._nodes).open()
            for level in range(top + 1):
                old, new = yield from self._change(level, keys, value_of)
                # A chunk is known above by its last key: a rewritten one is a changed link there, one
                # that ends elsewhere a removal and a new entry. Nothing else reaches the next level.
                keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
                if not keys:
                    return self._root
                value_of = new.get
        # The old root's level may now hold several chunks: the tree grows until one chunk holds all.
        while len(new) > 1:
            level += 1
            ensure(level <= LEVEL_MAX, "kernel.index_levels", "an index needs more than 24 levels")
            new = yield from self._build(level, list(new), new.get)
        if not new:
            return None
        return (yield from self._collapse(Cid(*new.values()), level))

    def write(self, level: int, keys: list[bytes], values: list[Any], old: _Links, new: _Links) -> None:
        """Make a chunk, and a block of it unless it was there before."""
        data = encode_chunk(level, keys, values)
        cid = cid_of(data)
        last = keys[-1]
        new[last] = bytes(cid)
        self._written += 1
        # Equal bytes under the same key were in the tree before, so the store has them.
        if old.get(last) != cid:
            self.blocks[cid] = data

    def is_slice_full(self) -> bool:
        """Tell whether it is time for a pause; the next slice begins."""
        if self._written < self._slice_nodes:
            return False
        self._written = 0
        return True

    def _build(self, level: int, keys: Sequence[bytes], value_of: ValueOf) -> _Walk:
        """A whole new level; returns its chunks."""
        cut = _Cut(self, level, self._shape.at(level))
        for start in range(0, len(keys), MERGE_CHANGES):
            cut.merge(_NOTHING, keys[start : start + MERGE_CHANGES], value_of)
            if self.is_slice_full():
                yield self.pause
        cut.end()
        if level == 0:
            self.added += cut.added
        return cut.new

    def _change(self, level: int, keys: Sequence[bytes], value_of: ValueOf) -> _Walk:
        """Cut the changed chunks of a level anew; returns what was there, and what was cut."""
        assert self._root is not None
        cursor = Cursor(self._root, self._nodes, level=level)
        yield from cursor.open()
        cut = _Cut(self, level, self._shape.at(level))
        last, at = cursor.chunk.keys[-1], 0
        while at < len(keys):
            end = at
            groups = yield from cursor.prefetch(keys[at : at + RUN_CHANGES])
            if not groups:  # the root is the only chunk of this level
                at = yield from self._recut(cursor, cut, keys, at, value_of)
            for group in groups:
                parent, place, _ = group
                # The run may end amid the changes of a chunk: all of them are written at once, or the chunk
                # would be made twice from what it was. Keys behind all others belong to the last chunk.
                ending = parent.keys[place]
                start, end = end, len(keys) if ending == last else bisect_right(keys, ending, end)
                if at == start and cut.replace(cursor.decoded(group), keys[start:end], value_of):
                    at = end
                    if self.is_slice_full():
                        yield self.pause
                while at < end:  # keys are new or gone here, so boundaries may move
                    yield from cursor.seek(keys[at])
                    at = yield from self._recut(cursor, cut, keys, at, value_of)
        if level == 0:
            self.added += cut.added
        return cut.old, cut.new

    def _recut(self, cursor: Cursor, cut: _Cut, keys: Sequence[bytes], at: int, value_of: ValueOf) -> _Walk:
        """Cut from the cursor's chunk on until a cut coincides with an old one; returns the next change."""
        while True:
            chunk, is_last = cursor.chunk, cursor.is_last
            old = _Old(chunk, is_last=is_last, shape=self._shape.at(chunk.level))
            cut.old[chunk.keys[-1]] = bytes(chunk.cid)
            end = len(keys) if is_last else bisect_right(keys, chunk.keys[-1], at)
            while end - at > MERGE_CHANGES:
                cut.merge(old, keys[at : at + MERGE_CHANGES], value_of)
                at += MERGE_CHANGES
                if self.is_slice_full():
                    yield self.pause
            cut.merge(old, keys[at:end], value_of)
            cut.rest(old)
            at = end
            if self.is_slice_full():
                yield self.pause
            if is_last:
                cut.end()
            # A cut at the end of an old chunk leaves nothing over: all later chunks stay as they are.
            if cut.is_clean or is_last:
                return at
            yield from cursor.next()

    def _collapse(self, root: Cid, level: int) -> _Walk:
        """A root above level 0 has at least two chunks below it."""
        while level:
            data = self.blocks.get(root)
            if data is None:
                blocks = yield from fetch(self._nodes, (root,))
                data = blocks[root]
            chunk = Chunk(root, data, level, None)
            if len(chunk.keys) > 1:
                return root
            # A root with one child says nothing; without this, equal entries could have roots of two heights.
            self.blocks.pop(root, None)
            root = chunk.child(0)
            level -= 1
        return root


class _Old:
    """A chunk that is being replaced: what of it is not yet taken over."""

    __slots__ = ("_is_cut", "at", "keys", "level", "shape", "values")

    def __init__(self, chunk: Chunk | None, *, is_last: bool, shape: Shape | None) -> None:
        self.at = 0
        self.shape = shape
        self.level = chunk.level if chunk is not None else 0
        self.keys = chunk.keys if chunk is not None else []
        self.values: list[Any] = chunk.movable() if chunk is not None else []
        # Neither full nor the last: only its last key's digest can have ended it, so the digest is known.
        self._is_cut = not is_last and shape is not None and len(self.keys) < shape.entries_max

    def ends(self) -> bool:
        """Tell whether its last key ends a chunk: surely so where it is neither full nor the last."""
        return self._is_cut or (self.shape is not None and is_ending(self.level, self.keys[-1], self.shape))


_NOTHING = _Old(None, is_last=True, shape=None)


class _Cut:
    """Entries of a level on their way into new chunks."""

    def __init__(self, work: _Update, level: int, shape: Shape) -> None:
        self.old: _Links = {}
        self.new: _Links = {}
        self.added = 0
        self._work = work
        self._level = level
        self._shape = shape
        self._keys: list[bytes] = []
        self._values: list[Any] = []
        self._known: dict[bytes, Any] = {}

    @property
    def is_clean(self) -> bool:
        """Tell whether no entry waits for the end of its chunk."""
        return not self._keys

    def replace(self, chunk: Chunk, changes: Sequence[bytes], value_of: ValueOf) -> bool:
        """Give a chunk other values of keys that it has; False, with nothing done, where others change.

        Most changes are such: they move no boundary, so nothing has to be cut.
        """
        keys, size = chunk.keys, len(chunk.keys)
        places = [bisect_left(keys, key) for key in changes]
        if places[-1] == size or any(keys[at] != key for at, key in zip(places, changes, strict=True)):
            return False
        values = [value_of(key) for key in changes]
        if None in values:
            self._known.update(zip(changes, values, strict=True))  # a value is asked for once
            return False
        changed = chunk.movable().copy()
        for at, value in zip(places, values, strict=True):
            changed[at] = value
        self.old[keys[-1]] = bytes(chunk.cid)
        self._work.write(self._level, keys, changed, self.old, self.new)
        return True

    def merge(self, old: _Old, changes: Sequence[bytes], value_of: ValueOf) -> None:
        """Take the old chunk's entries up to the last change, changed."""
        keys, size, at = old.keys, len(old.keys), old.at
        for key in changes:
            place = bisect_left(keys, key, at)
            if place > at:
                self._take(old, at, place)
            present = place < size and keys[place] == key
            at = place + present
            value = self._known.pop(key) if key in self._known else value_of(key)
            self.added += (value is not None) - present
            if value is None:
                continue
            self._keys.append(key)
            self._values.append(value)
            if not present:
                self._fill(is_end=is_ending(self._level, key, self._shape))
            elif at == size:  # a key that the old chunk has ends one only as its last: no digest is needed
                self._fill(is_end=old.ends())
        old.at = at

    def rest(self, old: _Old) -> None:
        """Take what is left of the old chunk."""
        if old.at < len(old.keys):
            self._take(old, old.at, len(old.keys))

    def _take(self, old: _Old, begin: int, end: int) -> None:
        self._keys += old.keys[begin:end]
        self._values += old.values[begin:end]
        if end == len(old.keys):
            self._fill(is_end=old.ends())

    def end(self) -> None:
        """The level ends here."""
        if self._keys:
            self._fill(is_end=True)

    def _fill(self, *, is_end: bool) -> None:
        """Write the chunks that are full, and the one that ends here."""
        keys, values, most = self._keys, self._values, self._shape.entries_max
        while len(keys) > most or (len(keys) == most and not is_end):
            self._work.write(self._level, keys[:most], values[:most], self.old, self.new)
            keys, values = keys[most:], values[most:]
        if is_end and keys:
            self._work.write(self._level, keys, values, self.old, self.new)
            keys, values = [], []
        self._keys, self._values = keys, values
