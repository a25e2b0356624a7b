"""The SQLite engine beside a bare connection of `sqlite3`.

All start with the rows of a batch in memory and end when they are durable. All files have the same tables,
the same settings (`synchronous=FULL`, page cache, checkpoints after 4 MB of log), and 100,000 rows to begin
with, because hardly anybody writes into an empty database; new keys fall anywhere between the old ones.

Ours             `await engine.commit(Batch(set=...))`: checks, checksums, the writer thread and back. Rounds
                 of batches end with an empty commit, so that a checkpoint after the last one counts.
Same statements  BEGIN IMMEDIATE, the engine's own upserts (many rows each, in key order), COMMIT, on the
                 calling thread. Checksums are made outside the clock; checkpoints are SQLite's own.
executemany      BEGIN IMMEDIATE, `executemany` of a one-row upsert in the order given, COMMIT.

For the group, 64 tasks commit one batch of one row each; the bare side commits 64 times, one after another.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from itertools import count
from pathlib import Path

from bench.report import Row, measured, ratio
from bench.timing import Side, best_of_waiting
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.engines.sqlite.connection import Settings, configure, connect_sqlite3
from cellule.store.engines.sqlite.engine import CHECKPOINT_BYTES
from cellule.store.engines.sqlite.layout import PAGE_SIZE, prepare_file
from cellule.store.engines.sqlite.statements import upsert_rows
from cellule.store.rows import seal_row

BATCHES_MIN, GROUP_MIN = 0.7, 5.0
COMMITTERS = 64
TARGET_ROWS_MIN = 100
COMMITS = {1: 50, 10: 50, 100: 20, 1_000: 5}  # how many one round has, by the rows of a batch
FILL_ROWS = 1_000

_UPSERT = "INSERT INTO rows (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"

Rows = dict[bytes, bytes]


async def measure(*, quick: bool) -> AsyncGenerator[Row, None]:
    """Batches of several sizes, then concurrent committers."""
    rounds = 1 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        same, many = _bare(Path(folder) / "same.db"), _bare(Path(folder) / "many.db")
        with closing(same), closing(many):
            async with await SqliteEngine.open(Path(folder) / "engine.db") as engine:
                await _fill(engine, same, many, fills=1 if quick else 100)
                for size in COMMITS:
                    for row in await _batches(engine, same, many, size, rounds):
                        yield row
                for row in await _group(engine, same, rounds * 4):
                    yield row


def _bare(path: Path) -> sqlite3.Connection:
    settings = Settings(str(path), connect_sqlite3, 0, CHECKPOINT_BYTES, 0)
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    configure(connection, settings, read_only=False)
    prepare_file(connection, settings)
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_BYTES // PAGE_SIZE}").fetchall()
    return connection


async def _fill(engine: SqliteEngine, same: sqlite3.Connection, many: sqlite3.Connection, fills: int) -> None:
    for rows in _fresh(0, FILL_ROWS, fills)():
        await engine.commit(Batch(set=rows))
        _write_same(same, _sealed(rows))
        _write_many(many, list(_sealed(rows).items()))


def _write_same(connection: sqlite3.Connection, rows: Rows) -> None:
    connection.execute("BEGIN IMMEDIATE")
    upsert_rows(connection, rows)
    connection.execute("COMMIT")


def _write_many(connection: sqlite3.Connection, rows: list[tuple[bytes, bytes]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_UPSERT, rows)
    connection.execute("COMMIT")


def _fresh(case: int, size: int, batches: int) -> Callable[[], list[Rows]]:
    """Batches of new rows at each call; the same sequence for every side of a case."""
    numbers = count()

    def make() -> list[Rows]:
        return [dict(_row(case, next(numbers)) for _ in range(size)) for _ in range(batches)]

    return make


def _row(case: int, number: int) -> tuple[bytes, bytes]:
    """A key of its own for each case and number, anywhere among the others."""
    place = number * 7_919 % 10_000_019
    return b"k%012d-%d" % (place, case), place.to_bytes(8, "big") * 15


def _sealed(rows: Rows) -> Rows:
    return {key: seal_row(key, value) for key, value in rows.items()}


async def _batches(
    engine: SqliteEngine, same: sqlite3.Connection, many: sqlite3.Connection, size: int, rounds: int
) -> list[Row]:
    commits = COMMITS[size]
    for_engine, for_same, for_many = (_fresh(size, size, commits) for _ in range(3))

    async def ours(batches: list[Batch]) -> None:
        for batch in batches:
            await engine.commit(batch)
        await engine.commit(Batch())

    async def statements(batches: list[Rows]) -> None:
        for rows in batches:
            _write_same(same, rows)

    async def executemany(batches: list[list[tuple[bytes, bytes]]]) -> None:
        for rows in batches:
            _write_many(many, rows)

    ours_s, statements_s, many_s = await best_of_waiting(
        [
            Side(ours, lambda: [Batch(set=rows) for rows in for_engine()]),
            Side(statements, lambda: [_sealed(rows) for rows in for_same()]),
            Side(executemany, lambda: [list(_sealed(rows).items()) for rows in for_many()]),
        ],
        rounds,
    )
    case = f"SQLite, batches of {size:,}"
    target = BATCHES_MIN if size >= TARGET_ROWS_MIN else None
    return [
        ratio("engines", case, "commits vs bare sqlite3, same statements", statements_s / ours_s, target),
        ratio("engines", case, "commits vs bare sqlite3, executemany", many_s / ours_s),
        measured("engines", case, "commit", ours_s / commits * 1e6, "us"),
    ]


async def _group(engine: SqliteEngine, bare: sqlite3.Connection, rounds: int) -> list[Row]:
    for_engine, for_bare = (_fresh(COMMITTERS, 1, COMMITTERS) for _ in range(2))

    async def ours(batches: list[Batch]) -> None:
        await asyncio.gather(*(engine.commit(batch) for batch in batches))

    async def theirs(batches: list[Rows]) -> None:
        for rows in batches:
            _write_same(bare, rows)

    async def idle(_: None) -> None:
        await engine.commit(Batch())

    ours_s, _, theirs_s = await best_of_waiting(
        [
            Side(ours, lambda: [Batch(set=rows) for rows in for_engine()]),
            Side(idle),
            Side(theirs, lambda: [_sealed(rows) for rows in for_bare()]),
        ],
        rounds,
    )
    case = f"SQLite, {COMMITTERS} committers"
    return [
        ratio("engines", case, "group commit vs separate bare commits", theirs_s / ours_s, GROUP_MIN),
        measured("engines", case, "all of them", ours_s * 1e6, "us"),
    ]
