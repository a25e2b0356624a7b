"""A full disk, made by a limit on the pages of the file: commits change nothing, and work again with room."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress

import pytest

from cellule.errors import OutcomeUnknown, Unavailable
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine, check, connect_sqlite3
from tests.support.durability import Ledger

pytestmark = pytest.mark.crash


class SmallDisk:
    """A disk with room for so many pages; SQLite takes the present size for the least there can be."""

    def __init__(self):
        self.pages = 1_000_000
        self.connections = []

    def connect(self, path):
        connection = connect_sqlite3(path)
        connection.execute(f"PRAGMA max_page_count = {self.pages}").fetchall()
        self.connections.append(connection)
        return connection

    def limit(self, pages):
        self.pages = pages
        with suppress(sqlite3.ProgrammingError):  # the engine closed some of them
            for connection in reversed(self.connections):
                connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()


@pytest.fixture
async def small(tmp_path):
    disk = SmallDisk()
    async with await SqliteEngine.open(tmp_path / "store.db", connect=disk.connect) as engine:
        yield engine, disk


async def test_a_full_disk_refuses_commits_and_changes_nothing(small):
    engine, disk = small
    ledger = Ledger()
    assert await ledger.write(engine)
    disk.limit(1)
    big = {ledger.space.raw(b"big/%d" % n): bytes(50_000) for n in range(10)}
    with pytest.raises(Unavailable) as caught:
        await engine.commit(Batch(set=big))
    assert caught.value.code == "store.disk_full"
    assert not isinstance(caught.value, OutcomeUnknown)
    assert "is full" in str(caught.value)
    await ledger.verify(engine)


async def test_reads_and_small_commits_go_on_and_large_ones_work_again_with_room(small):
    engine, disk = small
    ledger = Ledger()
    key = ledger.space.raw(b"a")
    await engine.commit(Batch(set={key: b"1"}))
    disk.limit(1)
    big = Batch(set={ledger.space.raw(b"big"): bytes(90_000)})
    for _ in range(3):
        with pytest.raises(Unavailable):
            await engine.commit(big)
        assert await engine.read([key]) == [b"1"]
    await engine.commit(Batch(expect={key: b"1"}, set={key: b"2"}))
    disk.limit(100_000)
    await engine.commit(big)
    assert await engine.read([key, *big.set]) == [b"2", bytes(90_000)]
    assert (await check(engine.path)).ok


async def test_a_batch_that_does_not_fit_fails_alone_in_its_group(small):
    engine, disk = small
    ledger = Ledger()
    keys = [ledger.space.raw(b"%d" % n) for n in range(20)]
    await engine.commit(Batch(set=dict.fromkeys(keys, b"0")))
    disk.limit(1)
    big = Batch(set={ledger.space.raw(b"big"): bytes(90_000)})
    commits = [engine.commit(Batch(set={key: b"1"})) for key in keys]
    commits.insert(10, engine.commit(big))
    outcomes = await asyncio.gather(*commits, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list] * 10 + [Unavailable] + [list] * 10
    assert await engine.read(keys) == [b"1"] * 20
