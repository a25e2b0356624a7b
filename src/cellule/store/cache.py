"""Bounded caches of CAS bytes: encoded nodes in memory, bodies of a remote object store on the local disk.

Both are keyed by universe and CID, so a universe never reads through another's entries. Entries are
immutable; memory holds verified bytes only, the disk's bytes are verified by the reader as any others.
A cache may lose everything at any time. Whether an object still exists is never asked here.

Rejected: one cache per universe. A node hosts many, and one bound over all of them is the one that matters.
Rejected: syncing cache files. A lost or torn one is found by its CID and fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import OrderedDict
from pathlib import Path
from uuid import UUID

from cellule.errors import Unavailable
from cellule.sources import Entropy, SystemEntropy

NODE_CACHE_BYTES = 64_000_000
DISK_CACHE_BYTES = 2_000_000_000
ENTRY_BYTES = 300
"""What an entry costs beside its bytes: key, links of the order, object heads (measured with tracemalloc)."""
SHARE_MAX = 8
"""An entry larger than this part of the bound is not kept: one large body must not empty the cache."""


class NodeCache:
    """Least recently used bytes, bounded by their sum. For one event loop; no method waits."""

    def __init__(self, bytes_max: int = NODE_CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[tuple[UUID, bytes], bytes] = OrderedDict()
        self.bytes_used = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, universe: UUID, cid: bytes) -> bytes | None:
        """Return the bytes of a node if they are here, and make them the youngest."""
        data = self._entries.get((universe, cid))
        if data is not None:
            self._entries.move_to_end((universe, cid))
        return data

    def put(self, universe: UUID, cid: bytes, data: bytes) -> None:
        """Keep verified bytes, dropping the oldest beyond the bound."""
        if (universe, cid) in self._entries or len(data) > self._bytes_max // SHARE_MAX:
            return
        self._entries[(universe, bytes(cid))] = data
        self.bytes_used += len(data) + ENTRY_BYTES
        while self.bytes_used > self._bytes_max:
            _, oldest = self._entries.popitem(last=False)
            self.bytes_used -= len(oldest) + ENTRY_BYTES

    def drop(self, universe: UUID, cid: bytes) -> None:
        """Forget one node."""
        data = self._entries.pop((universe, cid), None)
        if data is not None:
            self.bytes_used -= len(data) + ENTRY_BYTES


class DiskCache:
    """Least recently used bodies in a folder of one process, bounded by their sum; made by `open`.

    Files are named `<universe>-<cid>` in hex. A file that disappears or fails is a miss; a disk that
    refuses to write is one too, because a cache never stops its reader.
    """

    def __init__(self, folder: Path, bytes_max: int, entropy: Entropy) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._entropy = entropy
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self.bytes_used = 0

    @classmethod
    async def open(
        cls, folder: Path | str, *, bytes_max: int = DISK_CACHE_BYTES, entropy: Entropy | None = None
    ) -> DiskCache:
        """Open a folder, making it if needed, with what an earlier process left there, oldest first."""
        cache = cls(Path(folder), bytes_max, entropy or SystemEntropy())
        try:
            found = await asyncio.to_thread(cache._found)
        except OSError as error:
            raise Unavailable(
                "cas.cache_folder", "the cache folder {folder} cannot be opened: {reason}",
                folder=str(folder), reason=os.strerror(error.errno or 0),
            ) from error  # fmt: skip
        for _, name, size in sorted(found):
            cache._count(name, size)
        await cache._shrink()
        return cache

    async def get(self, universe: UUID, cid: bytes) -> bytes | None:
        """Return unverified bytes if they are here, and make them the youngest."""
        name = _file_name(universe, cid)
        if name not in self._sizes:
            return None
        try:
            data = await asyncio.to_thread((self._folder / name).read_bytes)
        except OSError:
            self._forget(name)
            return None
        if name in self._sizes:
            self._sizes.move_to_end(name)
        return data

    async def put(self, universe: UUID, cid: bytes, data: bytes) -> None:
        """Keep bytes, dropping the oldest beyond the bound."""
        name = _file_name(universe, cid)
        if name in self._sizes or len(data) > self._bytes_max // SHARE_MAX:
            return
        try:
            await asyncio.to_thread(self._write, name, data)
        except OSError:
            return
        self._count(name, len(data))
        await self._shrink()

    async def drop(self, universe: UUID, cid: bytes) -> None:
        """Forget one body."""
        name = _file_name(universe, cid)
        self._forget(name)
        await asyncio.to_thread(self._remove, [name])

    async def _shrink(self) -> None:
        leaving = []
        while self.bytes_used > self._bytes_max:
            name, size = self._sizes.popitem(last=False)
            self.bytes_used -= size
            leaving.append(name)
        if leaving:
            await asyncio.to_thread(self._remove, leaving)

    def _count(self, name: str, size: int) -> None:
        self._forget(name)
        self._sizes[name] = size
        self.bytes_used += size

    def _forget(self, name: str) -> None:
        self.bytes_used -= self._sizes.pop(name, 0)

    # What follows blocks, and runs in a thread.

    def _found(self) -> list[tuple[int, str, int]]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        found = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(".draft"):
                    self._remove([entry.name])
                else:
                    status = entry.stat()
                    found.append((status.st_mtime_ns, entry.name, status.st_size))
        return found

    def _write(self, name: str, data: bytes) -> None:
        draft = self._folder / f"{self._entropy.bytes(8).hex()}.draft"
        try:
            draft.touch(mode=0o600)
            draft.write_bytes(data)
            draft.replace(self._folder / name)
        except OSError:
            self._remove([draft.name])
            raise

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()


def _file_name(universe: UUID, cid: bytes) -> str:
    return f"{universe.hex}-{cid.hex()}"
