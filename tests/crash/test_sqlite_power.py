"""Power fails at every sync of a scripted history: whatever subset of the unsynced bytes survives, nothing
that was acknowledged is lost and nothing is half there."""

from __future__ import annotations

import os

import pytest

from cellule.errors import Unavailable
from cellule.store.engines.sqlite import SqliteEngine, check
from tests.support.disks import PowerDisk
from tests.support.durability import Ledger

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
BATCHES = 14
CHECKPOINT_BYTES = 40_000
LANES = 4
IMAGES = [
    (0.0, 0),
    (1.0, 0),
    *((chance, seed) for chance in (0.1, 0.5, 0.9) for seed in range(4 if FULL else 1)),
]
"""How likely each unsynced sector survives, and the seed that says which."""


async def history(path, disk, ledger):
    """Two lives of an engine, the second after a clean close; a dead disk ends it early."""
    for _ in range(2):
        try:
            engine = await SqliteEngine.open(path, connect=disk.connect, checkpoint_bytes=CHECKPOINT_BYTES)
        except Unavailable:
            return
        async with engine:
            await ledger.resume(engine)
            for _ in range(BATCHES):
                await ledger.write(engine)
                if disk.dead:
                    return


async def verify_image(folder, image, ledger):
    """Lay the surviving files out as a restarted machine finds them, and check them with an honest disk."""
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    path = folder / "store.db"
    async with await SqliteEngine.open(path) as engine:
        await ledger.verify(engine)
    report = await check(path)
    assert report.ok, report.problems


async def go_on(folder, ledger):
    """A store that survived is a store like any other."""
    async with await SqliteEngine.open(folder / "store.db") as engine:
        await ledger.resume(engine)
        for _ in range(3):
            assert await ledger.write(engine)
        await ledger.verify(engine)


async def syncs_of(folder):
    disk = PowerDisk(f"counting-{os.getpid()}", 0)
    try:
        await history(folder / "store.db", disk, Ledger())
    finally:
        disk.unregister()
    return disk.syncs


async def lose_power_at(folder, fail_at):
    """Run the history until the chosen sync; return the dead disk and what the writer was told."""
    disk = PowerDisk(f"power-{fail_at}-{os.getpid()}", fail_at)
    ledger = Ledger()
    try:
        await history(folder / "store.db", disk, ledger)
    finally:
        disk.unregister()
    return disk, ledger


@pytest.mark.parametrize("lane", range(LANES))
async def test_power_lost_at_any_sync_loses_nothing_acknowledged(tmp_path, lane):
    (tmp_path / "count").mkdir()
    count = await syncs_of(tmp_path / "count")
    assert count > 30
    for fail_at in range(1 + lane, count + 1, LANES):
        folder = tmp_path / str(fail_at)
        folder.mkdir()
        disk, ledger = await lose_power_at(folder, fail_at)
        assert disk.dead
        for chance, seed in IMAGES:
            found = folder / f"{chance}-{seed}"
            await verify_image(found, disk.image(chance, seed), ledger)
        await go_on(found, ledger)


@pytest.mark.parametrize("setting", ["OFF", "NORMAL"])
async def test_an_engine_that_does_not_sync_loses_acknowledged_batches(tmp_path, setting):
    """The disk of these tests can tell: with weaker settings, acknowledged batches are gone."""
    disk = PowerDisk(f"careless-{os.getpid()}", 0)

    class Careless:
        def __init__(self, path):
            self._connection = disk.connect(path)
            self.close = self._connection.close

        def execute(self, sql, *parameters):
            return self._connection.execute(
                sql.replace("synchronous=FULL", f"synchronous={setting}"), *parameters
            )

    ledger = Ledger()
    async with await SqliteEngine.open(tmp_path / "store.db", connect=Careless) as engine:
        for _ in range(5):
            assert await ledger.write(engine)
        image = disk.image(0.0, 0)
    disk.unregister()
    with pytest.raises((AssertionError, Unavailable)):
        await verify_image(tmp_path / "found", image, ledger)
