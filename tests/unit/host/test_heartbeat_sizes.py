"""Many enzymes and many nodes through a node; as many as the limits promise with CELLULE_SIZES=full."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

FILLERS = load_app(Path(__file__).parents[2] / "node_apps" / "fillers.py")
FULL = os.environ.get("CELLULE_SIZES") == "full"
ENZYMES = 100_000 if FULL else 6_000
NODES = 1_000_000 if FULL else 6_000
PAGE = 5_000  # of one run: its output has a limit


async def filled(world, signal, count):
    for begin in range(0, count, PAGE):
        await world.heartbeat.signal(signal, payload=[begin, min(count, begin + PAGE)])
    await world.wait_idle()


@in_virtual_time
async def test_one_of_many_registered_enzymes_runs_also_after_a_restart(opened):
    async with opened(app=FILLERS.app) as node:
        world = await node.world("w")
        await filled(world, "/fill/enzymes", ENZYMES)
        assert await world.heartbeat.read("/rt/metrics/enzymes") == ENZYMES + 3
        await world.heartbeat.signal(f"/kinds/{ENZYMES - 1}")
        await world.wait_idle()
    async with opened(app=FILLERS.app) as node:
        world = await node.world("w")
        await world.heartbeat.signal("/kinds/7")
        await world.wait_idle()
        found = {name: await world.heartbeat.read(f"/marks/kinds/{name}") for name in (7, ENZYMES - 1)}
        assert found == {7: "entry-7", ENZYMES - 1: f"entry-{ENZYMES - 1}"}
        assert await world.heartbeat.list("/marks/kinds") == sorted(map(str, found))


@pytest.mark.timeout(3_600)  # at full size the whole store is checked at the end
@in_virtual_time
async def test_many_nodes_are_listed_and_read_also_after_a_restart(opened):
    async with opened(app=FILLERS.app) as node:
        await filled(await node.world("w"), "/fill/nodes", NODES)
    async with opened(app=FILLERS.app) as node:
        heart = (await node.world("w")).heartbeat
        assert await heart.read(f"/tree/{(NODES - 1) // 1_000:04}/{NODES - 1}") == NODES - 1
        names, page = [], [""]
        while page:
            page = await heart.list("/tree", after=names[-1] if names else None, limit=700)
            names += page
        assert names == [f"{number:04}" for number in range(NODES // 1_000)]
        assert len(await heart.list("/tree/0003", limit=1_000)) == 1_000
