"""Changing an ordered index: a batch of puts and removals becomes a new root and its new chunks.

Level by level: the changed chunks of a level are cut anew from where the first change falls until a cut
coincides with an old one, and what was cut differently is the batch of changes for the level above. So the
work is proportional to the change, and the result is what a fresh build of the same entries gives.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from cellule.errors import ensure
from cellule.kernel.need import Need, Nodes, Pause, fetch
from cellule.kernel.ordered.chunk import ENTRIES_MAX, LEVEL_MAX, Chunk, Entry, encode_chunk, is_ending
from cellule.kernel.ordered.cursor import Cursor
from cellule.values.cid import Cid, cid_of

RUN_CHANGES = 1_024  # changes whose chunks are asked for together
SLICE_CHUNKS = 128  # chunks written between two pauses

Change = tuple[bytes, Any]  # a key and its new value (or link); None removes
_Walk = Generator[Need | Pause, None, Any]


class Updated(NamedTuple):
    """A new root (None = empty), the blocks it needs that were not taken at a pause, and entries added."""

    root: Cid | None
    blocks: dict[Cid, bytes]
    added: int


def update(
    root: Cid | None, changes: Sequence[Change], nodes: Nodes, *, slice_nodes: int = SLICE_CHUNKS
) -> Generator[Need | Pause, None, Updated]:
    """Apply `changes`, ascending by key, to `root`; yields a `Pause` every `slice_nodes` chunks."""
    work = _Update(root, nodes, slice_nodes)
    made = (yield from work.run(changes)) if changes else root
    return Updated(made, work.blocks, work.added)


class _Update:
    """One batch on its way up the levels."""

    def __init__(self, root: Cid | None, nodes: Nodes, slice_nodes: int) -> None:
        self.blocks: dict[Cid, bytes] = {}
        self.added = 0
        self._root = root
        self._nodes = nodes
        self._pause = Pause(self.blocks)
        self._slice_nodes = slice_nodes
        self._written = 0

    def run(self, changes: Sequence[Change]) -> _Walk:
        """The new root."""
        level = -1
        row: Sequence[Change] = ()
        if self._root is not None:
            top = yield from Cursor(self._root, self._nodes).open()
            while level < top:
                level += 1
                row, changes = yield from self._change_level(self._root, level, changes)
                if not changes:
                    return self._root
        else:
            row = [(key, value) for key, value in changes if value is not None]
        while row and (level < 0 or len(row) > 1):
            level += 1
            ensure(level <= LEVEL_MAX, "kernel.ordered_levels", "an ordered index needs more than 24 levels")
            row = yield from self._cut_fresh(level, row)
        if not row:
            return None
        return (yield from self._collapse(Cid(row[0][1]), level))

    def _change_level(self, root: Cid, level: int, changes: Sequence[Change]) -> _Walk:
        """Cut the changed chunks of a level anew; returns what was cut, and the changes of the next."""
        cursor = Cursor(root, self._nodes, level=level)
        yield from cursor.open()
        keys = [key for key, _ in changes]
        old: dict[bytes, bytes] = {}
        new: dict[bytes, bytes] = {}
        at = fetched = 0
        while at < len(keys):
            if at >= fetched:
                fetched = at + RUN_CHANGES
                yield from cursor.prefetch(keys[at:fetched])
            yield from cursor.seek(keys[at])
            at = yield from self._recut(cursor, changes, keys, at, old, new)
            if self._written >= self._slice_nodes:
                self._written = 0
                yield self._pause
        keys = sorted(old.keys() | new.keys())
        return sorted(new.items()), [(key, new.get(key)) for key in keys if old.get(key) != new.get(key)]

    def _recut(
        self, cursor: Cursor, changes: Sequence[Change], keys: list[bytes], at: int,
        old: dict[bytes, bytes], new: dict[bytes, bytes],
    ) -> _Walk:  # fmt: skip
        """Cut from the cursor's chunk on until a cut coincides with an old one; returns the next change."""
        entries: list[Entry] = []
        endings: list[int] = []
        while True:
            chunk, is_last = cursor.chunk, cursor.is_last
            old[chunk.keys[-1]] = bytes(chunk.cid)
            end = len(keys) if is_last else bisect_right(keys, chunk.keys[-1], at)
            self._merge(chunk, changes[at:end], entries, endings, is_last=is_last)
            at = end
            rest = self._cut(chunk.level, entries, endings, new, old)
            entries, endings = entries[rest:], []
            if not entries:
                return at
            if is_last:
                self._write(chunk.level, entries, new, old)
                return at
            yield from cursor.next()

    def _merge(
        self,
        chunk: Chunk,
        changes: Sequence[Change],
        entries: list[Entry],
        endings: list[int],
        *,
        is_last: bool,
    ) -> None:
        """Append a chunk's entries, changed, and note which of them end a chunk.

        In an old chunk only the last entry can be one, and it is unless the chunk was full or the last.
        """
        level, size = chunk.level, len(chunk.keys)
        is_cut = not is_last and size < ENTRIES_MAX
        position = 0
        for key, value in (*changes, (None, None)):
            place = size if key is None else bisect_left(chunk.keys, key, position)
            if place > position:
                entries += chunk.entries[position:place]
                if place == size and (is_cut or is_ending(level, chunk.entries[-1])):
                    endings.append(len(entries) - 1)
            if key is None:
                return
            present = place < size and chunk.keys[place] == key
            position = place + 1 if present else place
            if value is not None:
                entries.append([key, value])
                if is_ending(level, entries[-1]):
                    endings.append(len(entries) - 1)
            if level == 0:
                self.added += (value is not None) - present

    def _cut(
        self,
        level: int,
        entries: list[Entry],
        endings: list[int],
        new: dict[bytes, bytes],
        old: dict[bytes, bytes],
    ) -> int:
        """Write all chunks that are complete; returns where the incomplete one begins."""
        start = 0
        for ending in (*endings, len(entries)):
            while start + ENTRIES_MAX <= min(ending + 1, len(entries)):
                self._write(level, entries[start : start + ENTRIES_MAX], new, old)
                start += ENTRIES_MAX
            if start <= ending < len(entries):
                self._write(level, entries[start : ending + 1], new, old)
                start = ending + 1
        return start

    def _cut_fresh(self, level: int, row: Sequence[Change]) -> _Walk:
        """A whole new level; returns the entries of the level above."""
        new: dict[bytes, bytes] = {}
        entries: list[Entry] = []
        for key, value in row:
            entry = [key, value]
            entries.append(entry)
            if len(entries) == ENTRIES_MAX or is_ending(level, entry):
                self._write(level, entries, new, {})
                entries = []
                if self._written >= self._slice_nodes:
                    self._written = 0
                    yield self._pause
        if entries:
            self._write(level, entries, new, {})
        if level == 0:
            self.added += len(row)
        return list(new.items())

    def _write(
        self, level: int, entries: list[Entry], new: dict[bytes, bytes], old: dict[bytes, bytes]
    ) -> None:
        data = encode_chunk(level, entries)
        cid = cid_of(data)
        last = entries[-1][0]
        new[last] = bytes(cid)
        self._written += 1
        if old.get(last) != cid:
            self.blocks[cid] = data

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
            self.blocks.pop(root, None)
            root = chunk.child(0)
            level -= 1
        return root
