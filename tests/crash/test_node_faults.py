"""A node whose disk fails once, at each durable operation in turn: clients that send again lose nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.errors import Unavailable
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE, StoreOptions
from tests.support.disks import FailingDisk
from tests.support.nodes import check_store, events_of, load_app

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
EVERY = 1 if FULL else 23
LANES = 4
EVENTS = 8
TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")


async def history(folder, disk, acknowledged):
    """Two lives of a node whose client sends each event until it is acknowledged, or the node fails."""
    options = Options(store=StoreOptions(connect=disk.connect), stall_s=0.02, snapshot_bytes=2_000)
    for life in range(2):
        try:
            async with open_node(folder, TALLY.app, options=options) as node:
                world = await node.world("w")
                for number in range(EVENTS):
                    await insist(world, f"{life}/{number}", acknowledged)
        except Unavailable:
            continue


async def insist(world, given, acknowledged):
    event = TALLY.Keep("k", given * 1_500) if given.endswith("3") else TALLY.Add("a", 1)
    for _ in range(20):
        try:
            await world.send(event, id=given)
        except Unavailable:
            continue
        acknowledged.append(given)
        return


async def run_once(folder, fail_at, kind):
    """Run the history with one fault; return whether the fault was reached."""
    disk = FailingDisk(f"node-{kind}-{fail_at}-{os.getpid()}", fail_at, kind)
    acknowledged = []
    programs = PythonPrograms()
    try:
        await history(folder, disk, acknowledged)
        disk.heal()
        await history(folder, disk, acknowledged)
        async with await SqliteEngine.open(folder / DATABASE, connect=disk.connect) as engine:
            assert (await engine.check()).ok
            [info] = await check_store(engine, programs)
            ids = [each.id for each in await events_of(engine, info) if each.id is not None]
        assert len(ids) == len(set(ids))
        assert set(acknowledged) == set(ids) == {f"{life}/{n}" for life in range(2) for n in range(EVENTS)}
    finally:
        programs.close()
        disk.unregister()
    return bool(disk.failed)


async def operations_of(folder):
    disk = FailingDisk(f"node-counting-{os.getpid()}", 0, "io")
    try:
        await history(folder, disk, [])
    finally:
        disk.unregister()
    return disk.count


@pytest.mark.parametrize("lane", range(LANES))
@pytest.mark.parametrize("kind", ["io", "full", "torn"])
async def test_a_disk_that_fails_once_costs_nothing_but_time(tmp_path, kind, lane):
    count = await operations_of(tmp_path / "counting")
    reached = 0
    for fail_at in range(1 + lane * EVERY, count + 1, LANES * EVERY):
        reached += await run_once(tmp_path / f"{kind}-{fail_at}", fail_at, kind)
    assert reached
