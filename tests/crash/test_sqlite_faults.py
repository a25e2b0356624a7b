"""Every durable operation of a scripted history fails once: acknowledged is there, nothing is half there."""

from __future__ import annotations

import os

import pytest

from cellule.errors import Unavailable
from cellule.store.engines.sqlite import SqliteEngine, check
from tests.support.disks import FailingDisk
from tests.support.durability import Ledger

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
BATCHES = 14
CHECKPOINT_BYTES = 40_000
LANES = 8
"""The operations are dealt out to this many tests, so that they run side by side."""


async def history(path, disk, ledger):
    """Open, write, close and open again, on a disk that may fail; go on after every failure."""
    for _ in range(2):
        try:
            engine = await SqliteEngine.open(path, connect=disk.connect, checkpoint_bytes=CHECKPOINT_BYTES)
        except Unavailable:
            continue
        async with engine:
            try:
                await ledger.resume(engine)
            except Unavailable:
                continue
            for _ in range(BATCHES):
                if not await ledger.write(engine):
                    await settle(engine, ledger)


async def settle(engine, ledger):
    """After a failure, look what is stored and go on from there, as every caller has to."""
    try:
        await ledger.resume(engine)
    except Unavailable:
        return


async def run_once(folder, fail_at, kind):
    """Run the history with one fault; return whether the fault was reached."""
    path = folder / "store.db"
    disk = FailingDisk(f"failing-{kind}-{fail_at}-{os.getpid()}", fail_at, kind)
    ledger = Ledger()
    try:
        await history(path, disk, ledger)
        disk.heal()
        async with await SqliteEngine.open(path, connect=disk.connect) as engine:
            await ledger.verify(engine)
            await ledger.resume(engine)
            for _ in range(3):
                assert await ledger.write(engine)
            await ledger.verify(engine)
        report = await check(path, connect=disk.connect)
        assert report.ok, report.problems
    finally:
        disk.unregister()
    return bool(disk.failed)


async def operations_of(folder):
    """Count the durable operations of the history when none fails."""
    disk = FailingDisk(f"counting-{os.getpid()}", 0, "io")
    try:
        await history(folder / "store.db", disk, Ledger())
    finally:
        disk.unregister()
    return disk.count


@pytest.mark.parametrize("lane", range(LANES))
@pytest.mark.parametrize("kind", ["io", "full", "torn", "lasting"])
async def test_any_failing_operation_loses_nothing_acknowledged(tmp_path, kind, lane):
    (tmp_path / "count").mkdir()
    count = await operations_of(tmp_path / "count")
    assert count > 50
    step = LANES if FULL else LANES * 20
    reached = 0
    for fail_at in range(1 + lane, count + 40, step):
        folder = tmp_path / str(fail_at)
        folder.mkdir()
        reached += await run_once(folder, fail_at, kind)
    assert reached


@pytest.mark.parametrize("kind", ["io", "full", "torn", "lasting"])
async def test_faults_beyond_the_end_of_the_history_are_never_reached(tmp_path, kind):
    """The sweep above ends because the history does, not because it gave up."""
    assert not await run_once(tmp_path, 100_000, kind)
