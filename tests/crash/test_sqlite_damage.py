"""Damage to the file: a read gives the right value or an error, and what it cannot see `check` finds."""

from __future__ import annotations

import os
import shutil
import sqlite3
from random import Random

import pytest

from cellule.errors import Corrupted, Rejected, Unavailable
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine, check
from cellule.testing.conformance.engine_space import Space, dump

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
FLIPS = 250 if FULL else 40
SPACE = Space()


@pytest.fixture(scope="module")
def truth():
    """Rows without counters, which have no checksum; some so long that they need pages of their own."""
    chance = Random(1)
    return {
        SPACE.raw(b"%03d" % n + chance.randbytes(8)): b"%03d:" % n
        + chance.randbytes(chance.choice((5, 90, 6_000)))
        for n in range(300)
    }


@pytest.fixture
async def original(tmp_path, truth):
    """A file at rest: everything is in it, there is no log."""
    path = tmp_path / "original.db"
    async with await SqliteEngine.open(path) as engine:
        await engine.commit(Batch(set=truth, ordered=[(SPACE.queue(), b"item")]))
    assert not path.with_name("original.db-wal").exists()
    return path


async def seen_through_reads(engine, truth):
    """Read every key alone; return what was found, leaving out those that were refused as damaged."""
    seen, refused = {}, set()
    for key in truth:
        try:
            [value] = await engine.read([key])
        except (Corrupted, Unavailable):
            refused.add(key)
        else:
            if value is not None:
                seen[key] = value
    return seen, refused


async def check_damaged(path, truth):
    """Everything that is read is right; what is missing without an error is found by `check`."""
    try:
        report = await check(path)
        engine = await SqliteEngine.open(path)
    except (Corrupted, Rejected, Unavailable):
        return "refused"
    async with engine:
        seen, refused = await seen_through_reads(engine, truth)
        assert seen.items() <= truth.items(), "a read gave a wrong value"
        try:
            scanned = await dump(engine, SPACE)
        except (Corrupted, Unavailable):
            scanned = None
        if scanned is not None:
            rows = {key: value for key, value in scanned.items() if not key.startswith(SPACE.queue())}
            assert rows.items() <= truth.items(), "a scan gave a wrong value"
    hidden = truth.keys() - seen.keys() - refused
    if refused or hidden or scanned is None or rows != truth:
        assert not report.ok, f"{len(refused)} refused and {len(hidden)} hidden rows, and check found nothing"
        return "found"
    return "harmless" if report.ok else "found"


@pytest.mark.parametrize("seed", range(12 if FULL else 3))
async def test_a_flipped_bit_is_never_read_as_a_wrong_value(tmp_path, original, truth, seed):
    chance = Random(seed)
    content = original.read_bytes()
    results = []
    for turn in range(FLIPS):
        damaged = bytearray(content)
        # A quarter of the flips go to the first page, where the header and the tables are described.
        place = chance.randrange(4_096 if turn % 4 == 0 else len(content))
        damaged[place] ^= 1 << chance.randrange(8)
        path = tmp_path / "damaged.db"
        path.write_bytes(damaged)
        results.append(await check_damaged(path, truth))
        for leftover in tmp_path.glob("damaged.db*"):
            leftover.unlink()
    assert "found" in results


@pytest.mark.parametrize("seed", range(4 if FULL else 2))
async def test_a_page_overwritten_with_another_is_never_read_as_a_wrong_value(
    tmp_path, original, truth, seed
):
    """A misdirected write: one page lands where another should be."""
    chance = Random(seed)
    content = original.read_bytes()
    pages = [content[at : at + 4_096] for at in range(0, len(content), 4_096)]
    for _ in range(FLIPS):
        source, target = chance.sample(range(1, len(pages)), 2)
        path = tmp_path / "damaged.db"
        path.write_bytes(b"".join([*pages[:target], pages[source], *pages[target + 1 :]]))
        assert await check_damaged(path, truth) != "harmless" or pages[source] == pages[target]
        for leftover in tmp_path.glob("damaged.db*"):
            leftover.unlink()


async def test_a_damaged_value_is_detected_at_read_and_named_by_check(tmp_path, original, truth):
    """The bytes of one value change in place, wherever SQLite keeps them."""
    key, value = next((key, value) for key, value in truth.items() if len(value) < 100)
    content = original.read_bytes()
    assert content.count(value) == 1
    path = tmp_path / "damaged.db"
    path.write_bytes(content.replace(value, value[:-1] + bytes([value[-1] ^ 1])))
    async with await SqliteEngine.open(path) as engine:
        with pytest.raises(Corrupted) as caught:
            await engine.read([key])
        assert caught.value.code == "store.row_damaged"
        others = [other for other in truth if other != key]
        assert await engine.read(others) == [truth[other] for other in others]
        with pytest.raises(Corrupted):
            await engine.commit(Batch(expect={key: value}, set={key: b"new"}))
    report = await check(path)
    assert [problem.key for problem in report.problems] == [key]


async def test_values_that_changed_places_are_detected(tmp_path, original, truth):
    path = tmp_path / "damaged.db"
    shutil.copy(original, path)
    one, other = list(truth)[:2]
    connection = sqlite3.connect(path)
    with connection:
        stored = dict(connection.execute("SELECT key, value FROM rows WHERE key IN (?, ?)", (one, other)))
        for key, value in ((one, stored[other]), (other, stored[one])):
            connection.execute("UPDATE rows SET value = ? WHERE key = ?", (value, key))
    connection.close()
    async with await SqliteEngine.open(path) as engine:
        for key in (one, other):
            with pytest.raises(Corrupted):
                await engine.read([key])
    report = await check(path)
    assert {problem.key for problem in report.problems} == {one, other}


async def test_a_row_hidden_by_a_damaged_page_is_found_by_check(tmp_path, original, truth):
    """One leaf of the index says it has one entry less: the last row of it is no longer found."""
    content = bytearray(original.read_bytes())
    leaf = next(
        at for at in range(4_096, len(content), 4_096)
        if content[at] == 0x0A and int.from_bytes(content[at + 3 : at + 5], "big") > 10
    )  # fmt: skip
    cells = int.from_bytes(content[leaf + 3 : leaf + 5], "big")
    content[leaf + 3 : leaf + 5] = (cells - 1).to_bytes(2, "big")
    path = tmp_path / "damaged.db"
    path.write_bytes(content)
    async with await SqliteEngine.open(path) as engine:
        seen, refused = await seen_through_reads(engine, truth)
    assert not refused
    assert len(truth.keys() - seen.keys()) == 1
    report = await check(path)
    assert not report.ok
    assert {problem.kind for problem in report.problems} == {"page"}


async def test_a_damaged_stamp_counter_stops_ordered_commits_and_no_others(tmp_path, original):
    path = tmp_path / "damaged.db"
    shutil.copy(original, path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = x'000000000000000000ff00000000'")
    connection.close()
    async with await SqliteEngine.open(path) as engine:
        with pytest.raises(Corrupted):
            await engine.commit(Batch(ordered=[(SPACE.queue(), b"item")]))
        await engine.commit(Batch(set={SPACE.raw(b"other"): b"1"}))
    report = await check(path)
    assert [problem.kind for problem in report.problems] == ["stamp"]


async def test_a_cut_log_is_the_store_before_its_last_commits(tmp_path, original):
    """The documented limit: a log that lost its end cannot be told from a crash before those commits."""
    async with await SqliteEngine.open(original) as engine:
        for turn in range(5):
            await engine.commit(Batch(set={SPACE.raw(b"turn"): b"%d" % turn}))
        log = original.with_name("original.db-wal").read_bytes()
        content = original.read_bytes()
    found = set()
    for kept in [*range(0, len(log), 2_048), len(log)]:
        path = tmp_path / "cut.db"
        path.write_bytes(content)
        path.with_name("cut.db-wal").write_bytes(log[:kept])
        async with await SqliteEngine.open(path) as engine:
            found.update(await engine.read([SPACE.raw(b"turn")]))
        assert (await check(path)).ok
    assert found == {None, b"0", b"1", b"2", b"3", b"4"}
