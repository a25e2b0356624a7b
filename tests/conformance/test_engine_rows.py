"""`Engine.rows` on every engine: all rows, of one snapshot, whatever is written meanwhile."""

from __future__ import annotations

from contextlib import aclosing
from itertools import count
from uuid import UUID

import pytest

from cellule.errors import Corrupted
from cellule.store import keys
from cellule.store.engine import VALUE_BYTES_MAX, Batch
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.store.engines.postgres import PostgresEngine
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.rows import seal_row

UNIVERSE, WORLD = UUID(int=1), UUID(int=2)
FIRST, LAST = keys.universe_name("a"), keys.universe_name("z")
numbers = count()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def engine(request, tmp_path):
    match request.param:
        case "memory":
            opened = MemoryEngine(MemoryDisk())
        case "sqlite":
            opened = await SqliteEngine.open(tmp_path / "rows.db")
        case _:
            dsn = request.getfixturevalue("postgres_server").dsn
            opened = await PostgresEngine.open(dsn, schema=f"rows_{next(numbers)}")
    async with opened:
        yield opened


async def filled(engine):
    """More rows than one page takes, of every family; the first and the last always hold the same."""
    await engine.commit(Batch(clear=[keys.format_version()]))
    rows = {FIRST: b"before", LAST: b"before"}
    for number in range(60):
        rows[keys.universe_name(f"m{number:04}")] = bytes([number]) * VALUE_BYTES_MAX
    await engine.commit(Batch(set=rows))
    small = {keys.journal(UNIVERSE, WORLD, height): b"frame" for height in range(1, 1_200)}
    small[keys.cas(UNIVERSE, b"\x01\x71\x00")] = b"object"
    inbox = keys.inbox_prefix(UNIVERSE, WORLD)
    [stamp] = await engine.commit(Batch(set=small, add={keys.bell(3): -7}, ordered=[(inbox, b"item")]))
    bell = {keys.bell(3): (-7).to_bytes(8, "little", signed=True)}
    return rows | small | bell | {inbox + stamp: b"item"}


async def test_all_rows_come_once_and_from_one_snapshot(engine):
    rows = await filled(engine)
    found = []
    async with aclosing(engine.rows()) as pages:
        async for page in pages:
            found += page
            await engine.commit(Batch(set={FIRST: b"after", LAST: b"after"}))
            await engine.commit(Batch(set={keys.journal(UNIVERSE, WORLD, 5_000 + len(found)): b"new"}))
    assert len(found) == len(rows)
    assert dict(found) == rows
    assert await engine.read([FIRST, LAST]) == [b"after", b"after"]


async def test_rows_left_early_hold_nothing_up(engine):
    await filled(engine)
    async with aclosing(engine.rows()) as pages:
        assert await anext(pages)
    await engine.commit(Batch(set={FIRST: b"after"}))
    assert await engine.read([FIRST]) == [b"after"]


async def test_a_damaged_row_is_never_passed_on():
    disk = MemoryDisk({b"\x02a\0": seal_row(b"\x02a\0", b"value")})
    disk.damage(b"\x02a\0")
    with pytest.raises(Corrupted):
        async for _ in MemoryEngine(disk).rows():
            pass
