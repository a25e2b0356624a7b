"""`check` proves a whole file and says what is wrong with it."""

from __future__ import annotations

import sqlite3

import pytest

from cellule.errors import Rejected, Unavailable
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine, check
from cellule.store.engines.sqlite.check import PROBLEMS_MAX


async def filled(path, count):
    rows = {b"\x02x%05d" % n: b"%d" % n for n in range(count)}
    async with await SqliteEngine.open(path) as engine:
        await engine.commit(Batch(set=rows, add={b"\x01n": 1}, ordered=[(b"\x02xq", b"1")]))
    return rows


async def test_a_sound_file_is_proven_row_by_row_with_progress(tmp_path):
    path = tmp_path / "store.db"
    await filled(path, 2_500)
    steps = []
    report = await check(path, progress=steps.append)
    assert report.ok
    assert report.rows == 2_500 + 3
    assert report.bytes > 2_500 * 8
    assert steps == [1_000, 2_000, report.rows]


async def test_a_file_in_use_can_be_checked(tmp_path):
    path = tmp_path / "store.db"
    await filled(path, 10)
    async with await SqliteEngine.open(path) as engine:
        await engine.commit(Batch(set={b"\x02xnew": b"1"}))
        report = await engine.check()
    assert report.ok
    assert report.path == engine.path
    assert report.rows == 14


async def test_damaged_rows_are_all_counted_and_the_first_ones_named(tmp_path):
    path = tmp_path / "store.db"
    rows = await filled(path, PROBLEMS_MAX + 200)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE rows SET value = x'00112233445566' WHERE substr(key, 1, 2) = x'0278'")
    connection.close()
    report = await check(path)
    assert not report.ok
    assert report.problem_count == len(rows) + 1
    assert len(report.problems) == PROBLEMS_MAX
    assert {problem.kind for problem in report.problems} == {"row"}


async def test_what_is_no_database_is_reported_not_raised(tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(b"no pages here " * 1_000)
    report = await check(path)
    assert [problem.kind for problem in report.problems] == ["page"]


async def test_a_missing_file_is_unavailable_and_not_created(tmp_path):
    with pytest.raises(Unavailable):
        await check(tmp_path / "store.db")
    assert list(tmp_path.iterdir()) == []


async def test_a_database_of_another_program_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    with pytest.raises(Rejected):
        await check(tmp_path / "other.db")
