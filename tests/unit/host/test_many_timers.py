"""Very many timers on a node: set, the node restarted, fired in the order they are due."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.kernel.journal.records import ReceiptRecord
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE
from cellule.testing import ManualClock
from cellule.values.cbor import decode
from cellule.values.envelope import value_of
from tests.support.nodes import load_app, records_of

CELLS, EACH = 1_000, 100
ALARMS = load_app(Path(__file__).parents[2] / "node_apps" / "alarms.py")


async def test_a_hundred_thousand_timers_outlive_a_restart_and_fire_in_order(tmp_path):
    clock = ManualClock()
    options = Options(clock=clock)
    async with open_node(tmp_path, ALARMS.app, options=options) as node:
        world = await node.world("w")
        await world.send_many([ALARMS.Set(f"c{at}", at * EACH, EACH) for at in range(CELLS)])
        hosted = await node.node.hosted(world.info)
        assert hosted.world.ledger.book.timers == CELLS * EACH
    clock.advance(3_600 * 1_000_000_000)
    async with open_node(tmp_path, ALARMS.app, options=options) as node:
        world = await node.world("w")
        hosted = await node.node.hosted(world.info)
        async with asyncio.timeout(60):
            ledger = hosted.world.ledger
            while ledger.book.timers or ledger.ring:  # noqa: ASYNC110 - a ledger has nothing to wait on
                await asyncio.sleep(0.05)
        states = [await world.cell(ALARMS.alarm, f"c{at}").state() for at in range(CELLS)]
        assert states == [ALARMS.Alarm(EACH)] * CELLS
        info = world.info
    async with await SqliteEngine.open(tmp_path / DATABASE) as engine:
        records = await records_of(engine, info)
    receipts = [record for _, record in records if isinstance(record, ReceiptRecord)]
    fired = [decode(value_of(receipt.value))["due_ns"] for receipt in receipts]
    assert len(fired) == CELLS * EACH
    assert fired == sorted(fired)
