"""A place in one level of an index: goes to a key, to the next chunk, to the one before.

It keeps the decoded path from the root, so moving on reads only what is new. Chunks that will be wanted soon
are asked for together: twice as many siblings with every move, whole paths by `prefetch`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence

from cellule.kernel.index.chunk import Chunk
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cid import Cid

Group = tuple[Chunk, int, Sequence[bytes]]  # a chunk, one of its entries, and the keys that this leads to


class Cursor:
    """Walks the chunks of `level` below `root`; `chunk` is the one it is at, once `open`ed."""

    def __init__(self, root: Cid, nodes: Nodes, *, level: int = 0, ahead_max: int = 1) -> None:
        self.chunk: Chunk
        self._root = root
        self._nodes = nodes
        self._level = level
        self._ahead_max = ahead_max
        self._ahead = 1
        self._path: list[tuple[Chunk, int]] = []  # from the root down: a chunk, and which entry was followed
        self._held: dict[Cid, bytes | Chunk] = {}

    def open(self) -> Generator[Need, None, int]:
        """Read the root; returns its level."""
        blocks = yield from fetch(self._nodes, (self._root,))
        self.chunk = Chunk(self._root, blocks[self._root], None, None)
        return self.chunk.level

    @property
    def is_last(self) -> bool:
        """Tell whether no chunk of this level follows."""
        return all(at == len(chunk.keys) - 1 for chunk, at in self._path)

    def seek(self, key: bytes | None) -> Generator[Need, None, None]:
        """Go to the chunk where `key` is or would be: the first that ends at or after it, else the last.

        None goes to the last chunk.
        """
        known = [*self._path, (self.chunk, -1)]
        path: list[tuple[Chunk, int]] = []
        chunk = known[0][0]
        while chunk.level > self._level:
            at = len(chunk.keys) - 1
            if key is not None:
                at = min(bisect_left(chunk.keys, key), at)
            path.append((chunk, at))
            if len(known) > len(path) and known[len(path) - 1] == (chunk, at):
                chunk = known[len(path)][0]
            else:
                known = []
                chunk = yield from self._read(chunk, at, 1)
        self._path, self.chunk = path, chunk

    def next(self) -> Generator[Need, None, bool]:
        """Go to the chunk that follows; False, without moving, where none does."""
        return (yield from self._move(1))

    def prev(self) -> Generator[Need, None, bool]:
        """Go to the chunk before; False, without moving, where there is none."""
        return (yield from self._move(-1))

    def _move(self, step: int) -> Generator[Need, None, bool]:
        self._ahead = min(2 * self._ahead, self._ahead_max)
        path = self._path.copy()
        while path:
            chunk, at = path.pop()
            if not 0 <= at + step < len(chunk.keys):
                continue
            at += step
            while True:
                path.append((chunk, at))
                chunk = yield from self._read(chunk, at, step)
                if chunk.level == self._level:
                    self._path, self.chunk = path, chunk
                    return True
                at = 0 if step > 0 else len(chunk.keys) - 1
        return False

    def prefetch(self, keys: Sequence[bytes]) -> Generator[Need, None, list[Group]]:
        """Ask for all chunks on the way to ascending `keys`, a level at a time; the next seeks find them.

        Returns the chunks of the cursor's level that the keys lead to, unless the root is one of them.
        """
        self._held.clear()
        row = [(self._path[0][0] if self._path else self.chunk, keys)]
        while row and row[0][0].level > self._level:
            wanted = [group for chunk, some in row for group in _children(chunk, some)]
            blocks = yield from fetch(self._nodes, [chunk.child(at) for chunk, at, _ in wanted])
            level = row[0][0].level - 1
            if level == self._level:
                self._held.update(blocks)
                return wanted
            row = []
            for parent, at, some in wanted:
                cid = parent.child(at)
                self._held[cid] = chunk = Chunk(cid, blocks[cid], level, parent.keys[at])
                row.append((chunk, some))
        return []

    def decoded(self, group: Group) -> Chunk:
        """The chunk of a group that was just prefetched."""
        parent, at, _ = group
        cid = parent.child(at)
        data = self._held[cid]
        return data if isinstance(data, Chunk) else Chunk(cid, data, self._level, parent.keys[at])

    def _read(self, parent: Chunk, at: int, step: int) -> Generator[Need, None, Chunk]:
        cid = parent.child(at)
        data: bytes | Chunk | None = self._held.pop(cid, None)
        if data is None:
            stop = min(max(at + step * self._ahead, -1), len(parent.keys))
            blocks = yield from fetch(self._nodes, [parent.child(place) for place in range(at, stop, step)])
            data = blocks.pop(cid)
            self._held.update(blocks)
        if isinstance(data, Chunk):
            return data
        return Chunk(cid, data, parent.level - 1, parent.keys[at])


def _children(chunk: Chunk, keys: Sequence[bytes]) -> list[Group]:
    """Which entries of a chunk lead to ascending `keys`, with the keys each leads to."""
    groups = []
    low = 0
    while low < len(keys):
        at = min(bisect_left(chunk.keys, keys[low]), len(chunk.keys) - 1)
        high = len(keys) if at == len(chunk.keys) - 1 else bisect_right(keys, chunk.keys[at], low)
        groups.append((chunk, at, keys[low:high]))
        low = high
    return groups
