"""A COMMIT whose sync fails: the outcome is unknown for a reason, and settled by the next commit."""

from __future__ import annotations

import asyncio
import os
import shutil

import apsw
import pytest

from cellule.errors import OutcomeUnknown
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine
from tests.support.disks import Disk

pytestmark = pytest.mark.crash

KEY = b"\x02xkey"
OTHER = b"\x02xother"


class UnsyncableDisk(Disk):
    """Refuses syncs while `broken`, writes while `full`; what was written but not synced is in the file."""

    broken = False
    full = False

    def before(self, operation):
        if self.broken and operation.kind == "sync":
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        if self.full and operation.kind == "write":
            raise apsw.exception_for(apsw.SQLITE_FULL)


@pytest.fixture
def disk():
    disk = UnsyncableDisk(f"unsyncable-{os.getpid()}")
    yield disk
    disk.unregister()


@pytest.fixture
async def engine(tmp_path, disk):
    async with await SqliteEngine.open(tmp_path / "store.db", connect=disk.connect) as engine:
        await engine.commit(Batch(set={KEY: b"before"}))
        yield engine


async def after_a_crash(engine, folder):
    """Read the file and its log as a machine does that restarts now."""
    folder.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(engine.path + ending, folder / f"store.db{ending}")
    async with await SqliteEngine.open(folder / "store.db") as found:
        return (await found.read([KEY]))[0]


async def fail_to_commit(engine, disk, value):
    disk.broken = True
    with pytest.raises(OutcomeUnknown) as caught:
        await engine.commit(Batch(expect={KEY: b"before"}, set={KEY: value}))
    disk.broken = False
    assert caught.value.code == "store.io"


async def test_a_commit_whose_sync_failed_may_be_found_after_a_crash(tmp_path, engine, disk):
    """Here it is not seen, after a restart it is: telling the caller that it failed would have been wrong."""
    await fail_to_commit(engine, disk, b"unknown")
    assert await engine.read([KEY]) == [b"before"]
    assert await after_a_crash(engine, tmp_path / "found") == b"unknown"


async def test_after_a_later_commit_the_unknown_one_cannot_come_back(tmp_path, engine, disk):
    await fail_to_commit(engine, disk, b"unknown")
    await engine.commit(Batch(expect={KEY: b"before"}, set={KEY: b"after"}))
    assert await engine.read([KEY]) == [b"after"]
    assert await after_a_crash(engine, tmp_path / "found") == b"after"


async def test_a_short_commit_over_a_long_unknown_one_leaves_none_of_it(tmp_path, engine, disk):
    """The unknown commit left many pages in the log; the next overwrites only the first of them."""
    disk.broken = True
    with pytest.raises(OutcomeUnknown):
        await engine.commit(
            Batch(set={KEY: b"unknown", **{OTHER + b"%d" % n: bytes(50_000) for n in range(10)}})
        )
    disk.broken = False
    await engine.commit(Batch(set={OTHER: b"1"}))
    assert await after_a_crash(engine, tmp_path / "found") == b"before"


async def test_sending_the_same_batch_again_applies_it_once(tmp_path, engine, disk):
    """The same bytes come to lie over themselves in the log; the pages behind them stay without effect."""
    batch = Batch(
        expect={KEY: b"before"}, set={KEY: b"again"}, ordered=[(b"\x02xq", b"1")], add={b"\x01n": 1}
    )
    for _ in range(3):
        disk.broken = True
        with pytest.raises(OutcomeUnknown):
            await engine.commit(batch)
        disk.broken = False
    await engine.commit(batch)
    assert await after_a_crash(engine, tmp_path / "found") == b"again"
    assert await engine.read([b"\x01n"]) == [(1).to_bytes(8, "little")]
    assert len((await engine.scan(b"\x02xq", b"\x02xr", limit=10)).items) == 1


async def test_unknown_commits_while_the_disk_stays_broken_are_settled_together(tmp_path, engine, disk):
    for turn in range(5):
        await fail_to_commit(engine, disk, b"unknown %d" % turn)
    assert await after_a_crash(engine, tmp_path / "first") == b"unknown 4"
    await engine.commit(Batch(set={OTHER: b"1"}))
    assert await after_a_crash(engine, tmp_path / "second") == b"before"


async def test_a_group_that_found_no_room_for_its_log_is_unknown_as_a_whole_and_not_tried_again(engine, disk):
    disk.full = True
    batches = [Batch(set={OTHER + b"%d" % n: b"1"}) for n in range(20)]
    outcomes = await asyncio.gather(*map(engine.commit, batches), return_exceptions=True)
    disk.full = False
    assert {type(outcome) for outcome in outcomes} == {OutcomeUnknown}
    assert {outcome.code for outcome in outcomes} == {"store.disk_full"}
    await engine.commit(Batch(set={KEY: b"after"}))
    assert (await engine.scan(OTHER, OTHER + b"~", limit=100)).items == []
