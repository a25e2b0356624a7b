"""The caches stay inside their bounds, drop the oldest first, and keep universes apart."""

from __future__ import annotations

import os
from uuid import UUID

import pytest

from cellule.errors import Unavailable
from cellule.store.cache import ENTRY_BYTES, DiskCache, NodeCache
from cellule.values.cid import cid_of
from tests.support.file_modes import modes_of

OURS, THEIRS = UUID(int=1), UUID(int=2)


def cid(number: int) -> bytes:
    return cid_of(bytes([number]), codec="raw")


class TestNodeCache:
    def test_the_oldest_leave_first_and_a_read_makes_young(self):
        cache = NodeCache(bytes_max=10 * (10 + ENTRY_BYTES))
        for number in range(10):
            cache.put(OURS, cid(number), bytes(10))
        assert cache.get(OURS, cid(0)) == bytes(10)
        cache.put(OURS, cid(10), bytes(10))
        assert cache.get(OURS, cid(0)) == bytes(10)
        assert cache.get(OURS, cid(1)) is None
        assert len(cache) == 10

    def test_the_bound_holds_whatever_is_put(self):
        cache = NodeCache(bytes_max=20_000)
        for number in range(200):
            cache.put(OURS, cid(number), bytes(number * 13 % 2_000))
            assert cache.bytes_used <= 20_000
        kept = [cache.get(OURS, cid(number)) for number in range(200)]
        assert cache.bytes_used == sum(len(data) + ENTRY_BYTES for data in kept if data is not None)

    def test_one_large_entry_does_not_empty_the_cache(self):
        cache = NodeCache(bytes_max=80_000)
        cache.put(OURS, cid(1), bytes(10))
        cache.put(OURS, cid(2), bytes(10_001))
        assert cache.get(OURS, cid(1)) == bytes(10)
        assert cache.get(OURS, cid(2)) is None

    def test_universes_are_apart(self):
        cache = NodeCache()
        cache.put(OURS, cid(1), b"ours")
        assert cache.get(THEIRS, cid(1)) is None
        cache.drop(THEIRS, cid(1))
        assert cache.get(OURS, cid(1)) == b"ours"

    def test_a_dropped_entry_is_gone_and_uncounted(self):
        cache = NodeCache()
        cache.put(OURS, cid(1), b"ours")
        cache.put(OURS, cid(1), b"ours")
        cache.drop(OURS, cid(1))
        cache.drop(OURS, cid(1))
        assert (cache.get(OURS, cid(1)), cache.bytes_used, len(cache)) == (None, 0, 0)


class TestDiskCache:
    async def test_the_oldest_leave_first_and_a_read_makes_young(self, tmp_path):
        cache = await DiskCache.open(tmp_path / "cache", bytes_max=1_000)
        for number in range(10):
            await cache.put(OURS, cid(number), bytes(100))
        assert await cache.get(OURS, cid(0)) == bytes(100)
        await cache.put(OURS, cid(10), bytes(100))
        assert await cache.get(OURS, cid(0)) == bytes(100)
        assert await cache.get(OURS, cid(1)) is None
        assert len(list((tmp_path / "cache").iterdir())) == 10
        assert cache.bytes_used == 1_000

    @pytest.mark.usefixtures("open_umask")
    async def test_what_it_holds_is_for_its_user_alone(self, tmp_path):
        """Objects in a cache were for every user of the machine to read."""
        cache = await DiskCache.open(tmp_path / "cache")
        await cache.put(OURS, cid(1), b"ours")
        assert modes_of(tmp_path) == {"folder": {0o700}, "file": {0o600}}

    async def test_another_process_finds_what_was_left_oldest_first_and_no_drafts(self, tmp_path):
        folder = tmp_path / "cache"
        cache = await DiskCache.open(folder, bytes_max=1_000)
        for number in range(10):
            await cache.put(OURS, cid(number), bytes([number]) * 100)
        for number, path in enumerate(sorted(folder.iterdir(), key=lambda path: path.read_bytes())):
            os.utime(path, ns=(number, number))
        (folder / "0011.draft").write_bytes(b"torn")
        again = await DiskCache.open(folder, bytes_max=500)
        found = [await again.get(OURS, cid(number)) for number in range(10)]
        assert found == [None] * 5 + [bytes([number]) * 100 for number in range(5, 10)]
        assert len(list(folder.iterdir())) == 5

    async def test_universes_are_apart(self, tmp_path):
        cache = await DiskCache.open(tmp_path / "cache")
        await cache.put(OURS, cid(1), b"ours")
        assert await cache.get(THEIRS, cid(1)) is None
        await cache.drop(THEIRS, cid(1))
        assert await cache.get(OURS, cid(1)) == b"ours"

    async def test_a_file_that_vanished_is_a_miss(self, tmp_path):
        cache = await DiskCache.open(tmp_path / "cache")
        await cache.put(OURS, cid(1), b"ours")
        [path] = (tmp_path / "cache").iterdir()
        path.unlink()
        assert await cache.get(OURS, cid(1)) is None
        assert cache.bytes_used == 0
        await cache.put(OURS, cid(1), b"ours")
        assert await cache.get(OURS, cid(1)) == b"ours"

    async def test_a_folder_that_cannot_be_written_is_a_miss_and_no_error(self, tmp_path):
        cache = await DiskCache.open(tmp_path / "cache")
        (tmp_path / "cache").rmdir()
        await cache.put(OURS, cid(1), b"ours")
        assert await cache.get(OURS, cid(1)) is None
        assert cache.bytes_used == 0

    async def test_a_dropped_entry_is_gone(self, tmp_path):
        cache = await DiskCache.open(tmp_path / "cache")
        await cache.put(OURS, cid(1), b"ours")
        await cache.drop(OURS, cid(1))
        assert await cache.get(OURS, cid(1)) is None
        assert list((tmp_path / "cache").iterdir()) == []

    async def test_a_folder_that_cannot_be_made_is_unavailable(self, tmp_path):
        with pytest.raises(Unavailable) as caught:
            await DiskCache.open(tmp_path / "missing" / "cache")
        assert caught.value.code == "cas.cache_folder"
