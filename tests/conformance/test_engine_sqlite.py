"""The SQLite engine keeps every promise of the contract; each case on a file of its own."""

from __future__ import annotations

import apsw
import pytest

from cellule.store.engines.sqlite import SqliteEngine, connect_sqlite3
from cellule.testing.conformance.engines import EngineConformance


def flip_a_bit(connection, key):
    """Change one bit of a stored row behind the engine's back, with the engine's own driver."""
    try:
        connection.execute("PRAGMA busy_timeout = 5000").fetchall()
        [(stored,)] = connection.execute("SELECT value FROM rows WHERE key = ?", (key,)).fetchall()
        damaged = bytes([stored[0] ^ 1]) + stored[1:]
        connection.execute("UPDATE rows SET value = ? WHERE key = ?", (damaged, key))
    finally:
        connection.close()


class TestSqliteEngine(EngineConformance):
    @pytest.fixture
    def open_engine(self, tmp_path):
        async def open_engine():
            return await SqliteEngine.open(tmp_path / "store.db")

        return open_engine

    @pytest.fixture
    def damage(self, tmp_path):
        async def damage(key):
            flip_a_bit(connect_sqlite3(str(tmp_path / "store.db")), key)

        return damage


class TestSqliteEngineOnApsw(EngineConformance):
    """The same engine over another driver, with a log so small that a checkpoint follows most commits."""

    @pytest.fixture
    def open_engine(self, tmp_path):
        async def open_engine():
            return await SqliteEngine.open(
                tmp_path / "store.db", connect=apsw.Connection, checkpoint_bytes=8_192
            )

        return open_engine

    @pytest.fixture
    def damage(self, tmp_path):
        async def damage(key):
            flip_a_bit(apsw.Connection(str(tmp_path / "store.db")), key)

        return damage
