"""The CAS keeps every promise over memory and SQLite, with and without an object store."""

from __future__ import annotations

import hashlib
import tracemalloc
import uuid
from contextlib import aclosing

import pytest

from cellule.errors import Corrupted, Unavailable
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryEngine
from cellule.store.engines.sqlite import SqliteEngine, connect_sqlite3
from cellule.store.objects.local import LocalObjects
from cellule.testing.conformance.cas import CasConformance
from cellule.testing.conformance.cas_damage import damages
from tests.support.memory_objects import MemoryObjects


class TestCasInMemory(CasConformance):
    @pytest.fixture
    def open_parts(self):
        async def open_parts():
            return MemoryEngine(), None

        return open_parts


class TestCasInMemoryWithObjects(CasConformance):
    @pytest.fixture
    def open_parts(self):
        async def open_parts():
            return MemoryEngine(), MemoryObjects()

        return open_parts


class TestCasInSqlite(CasConformance):
    @pytest.fixture
    def open_parts(self, tmp_path):
        async def open_parts():
            return await SqliteEngine.open(tmp_path / "store.db"), None

        return open_parts


class TestCasInMemoryWithLocalObjects(CasConformance):
    @pytest.fixture
    def open_parts(self, tmp_path):
        async def open_parts():
            return MemoryEngine(), await LocalObjects.open(tmp_path / "objects")

        return open_parts


@pytest.mark.parametrize("with_objects", [False, True], ids=["chunks", "objects"])
async def test_a_stream_of_any_size_takes_constant_memory(tmp_path, with_objects):
    piece, count = bytes(range(250)) * 400, 400

    async def source():
        for _ in range(count):
            yield piece

    objects = await LocalObjects.open(tmp_path / "objects") if with_objects else None
    async with await SqliteEngine.open(tmp_path / "store.db") as engine:
        cas = Cas(engine, uuid.uuid4(), objects=objects)
        tracemalloc.start()
        try:
            cid = await cas.put_stream(source())
            digest = hashlib.sha256()
            async with aclosing(cas.stream(cid)) as pieces:
                async for part in pieces:
                    digest.update(part)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert digest.digest() == cid.digest
        assert peak < len(piece) * count / 3
        if objects is not None:
            await objects.close()


async def test_every_damage_of_a_stored_row_is_found_by_the_engine(tmp_path):
    """The generation has no digest of its own; the checksum of the row guards it, as it guards everything."""
    universe, path = uuid.uuid4(), tmp_path / "store.db"
    async with await SqliteEngine.open(path) as engine:
        cid = await Cas(engine, universe).put(b"an object", "raw")
    key = keys.cas(universe, cid)
    connection = connect_sqlite3(str(path))
    [(stored,)] = connection.execute("SELECT value FROM rows WHERE key = ?", (key,)).fetchall()
    async with await SqliteEngine.open(path) as engine:
        for damaged in damages(stored):
            connection.execute("UPDATE rows SET value = ? WHERE key = ?", (damaged, key))
            with pytest.raises(Corrupted):
                await Cas(engine, universe).get(cid)
        connection.execute("UPDATE rows SET value = ? WHERE key = ?", (stored, key))
        assert await Cas(engine, universe).get(cid) == b"an object"
    connection.close()


async def test_an_object_in_an_object_store_needs_it(tmp_path):
    universe = uuid.uuid4()
    async with MemoryEngine() as engine:
        cid = await Cas(engine, universe, objects=MemoryObjects()).put(bytes(100_000), "raw")
        with pytest.raises(Unavailable) as caught:
            await Cas(engine, universe).get(cid)
        assert caught.value.code == "cas.no_objects"


async def test_objects_written_without_an_object_store_are_read_with_one():
    universe = uuid.uuid4()
    async with MemoryEngine() as engine:
        cid = await Cas(engine, universe).put(bytes(100_000), "raw")
        assert await Cas(engine, universe, objects=MemoryObjects()).get(cid) == bytes(100_000)
