"""Opening: new files, files of others, newer files, folders that cannot be used."""

from __future__ import annotations

import asyncio
import sqlite3

import apsw
import pytest

from cellule.errors import Corrupted, Rejected, Unavailable
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine, connect_sqlite3
from cellule.values import encode


def run_sql(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    results = [connection.execute(sql).fetchall() for sql in statements]
    connection.close()
    return results


async def test_a_new_file_carries_our_mark_and_keeps_wal_mode(tmp_path):
    path = tmp_path / "store.db"
    async with await SqliteEngine.open(path) as engine:
        assert engine.path == str(path)
    mark, version, mode = run_sql(path, "PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode")
    assert (mark, version, mode) == ([(0x43454C4C,)], [(1,)], [("wal",)])


async def test_closing_leaves_one_file(tmp_path):
    async with await SqliteEngine.open(tmp_path / "store.db") as engine:
        await engine.commit(Batch(set={b"\x02a": b"1"}))
        assert (tmp_path / "store.db-wal").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


async def test_every_connection_is_as_durable_as_the_documents_say(tmp_path):
    connections = []

    def connect(path):
        connections.append(connect_sqlite3(path))
        return connections[-1]

    async with await SqliteEngine.open(tmp_path / "store.db", connect=connect) as engine:
        await engine.read([b"\x02a"])
        await engine.scan(b"\x02a", b"\x02b", limit=1)
        for connection in connections:
            assert connection.execute("PRAGMA synchronous").fetchall() == [(2,)]
            assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
            assert connection.execute("PRAGMA wal_autocheckpoint").fetchall() == [(0,)]
    assert len(connections) == 4


async def test_a_relative_path_and_odd_names_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:store.db?mode=memory", "name with spaces"):
        async with await SqliteEngine.open(name) as engine:
            await engine.commit(Batch(set={b"\x02a": b"1"}))
        assert (tmp_path / name).is_file()


async def test_the_log_of_a_linked_file_is_beside_the_file_and_is_copied_into_it(tmp_path):
    """The log was looked for beside the link, so it was never copied, and grew."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "store.db").symlink_to(tmp_path / "disk" / "store.db")
    async with await SqliteEngine.open(tmp_path / "store.db", checkpoint_bytes=50_000) as engine:
        assert [file.parent for file in engine.files] == [tmp_path / "disk"] * 3
        for number in range(40):
            await engine.commit(Batch(set={b"\x02%d" % number: bytes(50_000)}))
        assert (tmp_path / "disk" / "store.db").stat().st_size > 1_000_000


async def test_many_may_create_the_same_file_at_once(tmp_path):
    engines = await asyncio.gather(*(SqliteEngine.open(tmp_path / "store.db") for _ in range(8)))
    for number, engine in enumerate(engines):
        await engine.commit(Batch(add={b"\x01n": 1}, set={b"\x02%d" % number: b"1"}))
    assert await engines[0].read([b"\x01n"]) == [(8).to_bytes(8, "little")]
    for engine in engines:
        await engine.close()


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    run_sql(path, "CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('mine')")
    before = path.read_bytes()
    with pytest.raises(Rejected) as caught:
        await SqliteEngine.open(path)
    assert caught.value.code == "store.not_a_store"
    assert path.read_bytes() == before


async def test_tables_of_a_newer_release_are_refused(tmp_path):
    path = tmp_path / "store.db"
    await (await SqliteEngine.open(path)).close()
    run_sql(path, "PRAGMA user_version = 2")
    with pytest.raises(Rejected) as caught:
        await SqliteEngine.open(path)
    assert caught.value.code == "store.layout_unknown"
    assert "layout 2" in str(caught.value)


async def test_a_store_of_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "store.db"
    async with await SqliteEngine.open(path) as engine:
        await engine.commit(Batch(set={keys.format_version(): encode({"version": 1_000})}))
    with pytest.raises(Rejected) as caught:
        await SqliteEngine.open(path)
    assert caught.value.code == "store.format_newer"


async def test_tables_that_someone_changed_are_refused(tmp_path):
    path = tmp_path / "store.db"
    await (await SqliteEngine.open(path)).close()
    run_sql(path, "DROP INDEX rows_key")
    with pytest.raises(Corrupted) as caught:
        await SqliteEngine.open(path)
    assert caught.value.code == "store.tables_damaged"


async def test_a_file_that_is_no_database_is_refused_by_name(tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(b"These are not the pages of a database. " * 400)
    with pytest.raises(Corrupted) as caught:
        await SqliteEngine.open(path)
    assert caught.value.code == "store.file_damaged"
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["missing/store.db", "file/store.db", "."])
async def test_a_place_that_cannot_hold_a_file_is_unavailable(tmp_path, name):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable) as caught:
        await SqliteEngine.open(tmp_path / name)
    assert caught.value.code == "store.cannot_open"
    assert "folder" in str(caught.value)


async def test_a_file_that_cannot_be_written_is_unavailable(tmp_path):
    path = tmp_path / "store.db"
    async with await SqliteEngine.open(path, connect=apsw.Connection) as engine:
        await engine.commit(Batch(set={b"\x02a": b"1"}))

    def connect(path):
        return apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)

    async with await SqliteEngine.open(path, connect=connect) as engine:
        assert await engine.read([b"\x02a"]) == [b"1"]
        with pytest.raises(Unavailable) as caught:
            await engine.commit(Batch(set={b"\x02a": b"2"}))
    assert caught.value.code == "store.read_only"


class Pretending:
    """A connection that answers some statements itself."""

    def __init__(self, path, answers):
        self._connection = connect_sqlite3(path)
        self._answers = answers
        self.close = self._connection.close

    def execute(self, sql, *parameters):
        return self._connection.execute(self._answers.get(sql, sql), *parameters)


@pytest.mark.parametrize(
    ("sql", "answer", "code"),
    [
        ("SELECT sqlite_version()", "SELECT '3.36.0'", "store.sqlite_old"),
        ("PRAGMA journal_mode=WAL", "SELECT 'delete'", "store.no_wal"),
    ],
)
async def test_an_sqlite_that_cannot_do_what_is_needed_is_refused(tmp_path, sql, answer, code):
    with pytest.raises(Rejected) as caught:
        await SqliteEngine.open(tmp_path / "store.db", connect=lambda path: Pretending(path, {sql: answer}))
    assert caught.value.code == code


async def test_opening_can_be_cancelled(tmp_path):
    opening = asyncio.create_task(SqliteEngine.open(tmp_path / "store.db"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with await SqliteEngine.open(tmp_path / "store.db") as engine:
        await engine.commit(Batch(set={b"\x02a": b"1"}))
