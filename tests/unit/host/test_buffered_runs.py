"""A run of a schedule that finds its cell busy waits on a node, over a restart too; nothing looks for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cellule.kernel.journal.records import EventRecord
from cellule.testing import VirtualClock
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

SWEEPS = load_app(Path(__file__).parents[2] / "node_apps" / "sweeps.py")
MINUTE_NS = 60 * 10**9


@in_virtual_time
async def test_a_run_waits_over_a_restart_and_is_sent_when_its_cell_is_idle(opened):
    clock = VirtualClock()
    options = {"app": SWEEPS.app, "clock": clock, "idle_s": 1e6}
    async with opened(**options) as node:
        world = await node.world("w")
        [hourly] = await world.schedules()
        first_ns = hourly.next_ns
        await asyncio.sleep((first_ns - clock.now_ns()) / 1e9 + 61 * 60)
        [hourly] = await world.schedules()
        assert (hourly.overlap, hourly.waiting_ns) == ("buffer", first_ns + 60 * MINUTE_NS)
    async with opened(**options) as node:
        world = await node.world("w")
        assert (await world.schedules())[0].waiting_ns == first_ns + 60 * MINUTE_NS
        await asyncio.sleep(31 * 60)
        assert (await world.schedules())[0].waiting_ns is None
        sent, frames = [], 0
        async for frame in world.frames():
            frames += 1
            sent += [
                (record.id, (frame.header.now_ns - first_ns) // MINUTE_NS)
                for _, record in frame.of(EventRecord)
                if record.schema == "sweeps/Swept@1"
            ]
        waited_ns = first_ns + 60 * MINUTE_NS
        assert sent == [(f"schedule:hourly:{first_ns}", 0), (f"schedule:hourly:{waited_ns}", 90)]
        assert frames < 10
