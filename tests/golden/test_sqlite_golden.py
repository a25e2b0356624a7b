"""The bytes of an SQLite store, frozen: a change here is a new table layout."""

from __future__ import annotations

import sqlite3

from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine

TABLES = [
    ("meta", "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID"),
    ("rows", "CREATE TABLE rows (key BLOB NOT NULL, value BLOB NOT NULL) STRICT"),
    ("rows_key", "CREATE UNIQUE INDEX rows_key ON rows (key)"),
]
ROWS = [
    ("016e00", "2a00000000000000"),
    ("0261", "68656c6c6f39694333"),
    ("0271" + "000000000000000000010000", "78ee577e2e"),
    ("0271" + "000000000000000000010001", "79804b7ff9"),
]
META = [("stamp", "00000000000000000001" + "df8c8334")]


async def test_tables_marks_and_rows_are_frozen(tmp_path):
    path = tmp_path / "store.db"
    async with await SqliteEngine.open(path) as engine:
        await engine.commit(
            Batch(
                set={b"\x02a": b"hello"}, add={b"\x01n\0": 42}, ordered=[(b"\x02q", b"x"), (b"\x02q", b"y")]
            )
        )
    connection = sqlite3.connect(path)
    try:
        marks = [
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        ]
        tables = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        rows = connection.execute(
            "SELECT lower(hex(key)), lower(hex(value)) FROM rows ORDER BY key"
        ).fetchall()
        meta = connection.execute("SELECT name, lower(hex(value)) FROM meta").fetchall()
        page_size = connection.execute("PRAGMA page_size").fetchone()[0]
    finally:
        connection.close()
    assert marks == [0x43454C4C, 1]
    assert page_size == 4_096
    assert tables == TABLES
    assert [row for row in rows if row[0] != "02666f726d617400"] == ROWS
    assert meta == META
