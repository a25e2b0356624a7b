"""A node with effects whose disk fails once, at each operation in turn: nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.effects.adapter import AdapterLimits
from cellule.effects.http.adapter import HttpAdapter, HttpOptions
from cellule.errors import Unavailable
from cellule.host.outbox.rows import rows_range
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE, StoreOptions
from tests.support.disks import FailingDisk
from tests.support.nodes import check_store, load_app, records_of
from tests.support.servers.bank import Bank

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
EVERY = 2 if FULL else 29
LANES = 2
ORDERS = 3
PAYMENTS = load_app(Path(__file__).parents[1] / "node_apps" / "payments.py")
LIMITS = AdapterLimits(timeout_s=5, attempts=20, backoff_s=0.001, backoff_max_s=0.01, needs_grant=True)


async def life(folder, disk, url):
    """One life of a node: place the orders, wait until they are done, unless the disk ends it."""
    options = Options(
        store=StoreOptions(connect=disk.connect), stall_s=0.05, snapshot_bytes=4_000,
        adapters=[HttpAdapter(HttpOptions(limits=LIMITS))],
    )  # fmt: skip
    try:
        async with open_node(folder, PAYMENTS.app, options=options) as node:
            world = await node.world("shop")
            for number in range(ORDERS):
                await insist(world, f"o{number}", url)
            async with asyncio.timeout(20):
                while not await all_done(world):  # noqa: ASYNC110 - cells have nothing to wait on
                    await asyncio.sleep(0.005)
    except Unavailable:
        return


async def insist(world, name, url):
    for _ in range(50):
        try:
            await world.send(PAYMENTS.Placed(name, url), id=name)
        except Unavailable:
            await asyncio.sleep(0.01)
        else:
            return


async def all_done(world):
    try:
        states = [await world.cell(PAYMENTS.order, f"o{number}").state() for number in range(ORDERS)]
    except Unavailable:
        return False
    return all(state is not None and state.status == "done" for state in states)


async def run_once(folder, fail_at, kind):
    """Two lives with one fault; return whether the fault was reached."""
    disk = FailingDisk(f"effects-{kind}-{fail_at}-{os.getpid()}", fail_at, kind)
    programs = PythonPrograms()
    try:
        with Bank() as bank:
            await life(folder, disk, bank.url)
            disk.heal()
            await life(folder, disk, bank.url)
            async with await SqliteEngine.open(folder / DATABASE, connect=disk.connect) as engine:
                assert (await engine.check()).ok
                [info] = await check_store(engine, programs)
                records = await records_of(engine, info)
                assert (await engine.scan(*rows_range(), limit=10)).items == []
            intents = [height for height, record in records if isinstance(record, IntentRecord)]
            assert (
                sorted(record.cause for _, record in records if isinstance(record, ReceiptRecord)) == intents
            )
            assert len(intents) == 2 * ORDERS
            assert all(len(set(calls)) == 1 for calls in bank.calls.values())
    finally:
        programs.close()
        disk.unregister()
    return bool(disk.failed)


async def operations_of(folder):
    disk = FailingDisk(f"effects-counting-{os.getpid()}", 0, "io")
    try:
        with Bank() as bank:
            await life(folder, disk, bank.url)
    finally:
        disk.unregister()
    return disk.count


@pytest.mark.parametrize("lane", range(LANES))
@pytest.mark.parametrize("kind", ["io", "full", "torn"])
async def test_a_disk_that_fails_once_loses_no_effect_and_settles_each_once(tmp_path, kind, lane):
    count = await operations_of(tmp_path / "counting")
    reached = 0
    for fail_at in range(1 + lane * EVERY, count + 1, LANES * EVERY):
        reached += await run_once(tmp_path / f"{kind}-{fail_at}", fail_at, kind)
    assert reached
