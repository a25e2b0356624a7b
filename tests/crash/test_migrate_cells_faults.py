"""A map that becomes cells while the disk fails, at each durable operation, also between two of its beats.

Whoever opens the store next goes on where it ended, as if nothing had happened.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.errors import Unavailable
from cellule.kernel.decide import spills
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE, StoreOptions
from tests.support.disks import FailingDisk
from tests.support.nodes import check_store, load_app

pytestmark = pytest.mark.crash

APPS = Path(__file__).parents[1] / "node_apps"
WHOLE, CELLS = load_app(APPS / "till_map.py"), load_app(APPS / "till_cells.py")
EVERY = 1 if os.environ.get("CELLULE_CRASH") == "full" else 11
NAMES = [f"n{number}" for number in range(8)]


async def prepare(folder):
    async with open_node(folder, WHOLE.app) as node:
        world = await node.world("w")
        for number, name in enumerate(NAMES):
            await world.send(WHOLE.Paid(name, number))


async def migrate(folder, disk):
    """Two tries to move the map, by nodes of their own."""
    options = Options(store=StoreOptions(connect=disk.connect), stall_s=0.02)
    for _ in range(2):
        try:
            async with open_node(folder, CELLS.app, deploy="never", options=options) as node:
                await node.migrate_cells("w")
        except Unavailable:
            continue


async def totals(folder):
    async with open_node(folder, CELLS.app, deploy="never") as node:
        world = await node.world("w")
        return {cell.key: cell.state.total for cell in (await world.cells("till")).cells}


@pytest.mark.parametrize("kind", ["io", "full", "torn"])
async def test_a_disk_that_fails_leaves_the_map_the_cells_or_a_move_that_goes_on(
    tmp_path, kind, monkeypatch
):  # fmt: skip
    monkeypatch.setattr(spills, "SPILL_CELLS_PER_BEAT", 2)
    expected = {name: number for number, name in enumerate(NAMES)}
    at, reached = 1, True
    while reached:
        folder = Path(tmp_path / f"{kind}-{at}")
        await prepare(folder)
        disk = FailingDisk(f"cells-{kind}-{at}-{os.getpid()}", at, kind)
        programs = PythonPrograms()
        try:
            await migrate(folder, disk)
            reached = bool(disk.failed)
            disk.heal()
            await migrate(folder, disk)
            assert await totals(folder) == expected
            async with await SqliteEngine.open(folder / DATABASE, connect=disk.connect) as engine:
                assert (await engine.check()).ok
                await check_store(engine, programs)
        finally:
            programs.close()
            disk.unregister()
        at += EVERY
    assert at > 1 + EVERY
