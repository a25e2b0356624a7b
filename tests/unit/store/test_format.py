from __future__ import annotations

import asyncio

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.store.format import FORMAT_VERSION, check_format

ROW = bytes.fromhex("a16776657273696f6e00")


@pytest.fixture
def engine():
    return MemoryEngine()


async def test_a_fresh_store_gets_the_version_of_this_release(engine):
    assert await check_format(engine) == FORMAT_VERSION
    assert engine.disk.dump() == {keys.format_version(): ROW}
    assert await check_format(engine) == FORMAT_VERSION


async def test_many_nodes_may_open_a_fresh_store_at_once():
    disk = MemoryDisk()
    versions = await asyncio.gather(*(check_format(MemoryEngine(disk)) for _ in range(10)))
    assert versions == [FORMAT_VERSION] * 10


async def test_a_racing_newer_release_wins_and_is_refused():
    disk = MemoryDisk()
    newer, older = check_format(MemoryEngine(disk), newest=3), check_format(MemoryEngine(disk), newest=2)
    outcomes = await asyncio.gather(newer, older, return_exceptions=True)
    assert outcomes[0] == 3
    assert isinstance(outcomes[1], Rejected)
    assert outcomes[1].code == "store.format_newer"


async def test_a_newer_store_is_refused_naming_both_versions(engine):
    await check_format(engine, newest=7)
    with pytest.raises(Rejected, match=r"format 7; this Cellule knows formats up to 0.*Upgrade") as caught:
        await check_format(engine)
    assert caught.value.code == "store.format_newer"


async def test_an_older_store_is_read_while_it_is_supported(engine):
    await check_format(engine, newest=1)
    before = engine.disk.dump()
    assert await check_format(engine, newest=5, oldest=1) == 1
    with pytest.raises(Rejected, match=r"format 1; this Cellule reads 2 and later.*export") as caught:
        await check_format(engine, newest=5, oldest=2)
    assert caught.value.code == "store.format_older"
    assert engine.disk.dump() == before


@pytest.mark.parametrize(
    "row", ["", "ff", "00", "a0", "a16776657273696f6e20", "a16776657273696f6ef5", "a16776657273696f6e6130"]
)
async def test_a_row_that_names_no_version_is_corrupted(engine, row):
    await engine.commit(Batch(set={keys.format_version(): bytes.fromhex(row)}))
    with pytest.raises(Corrupted) as caught:
        await check_format(engine)
    assert caught.value.code == "store.format_damaged"
