"""Links in values of users name what may not be stored: no damage; links of Cellule's own are needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule.errors import Corrupted, StepFailed
from cellule.host.read.check import check_world
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch
from cellule.testing import World
from cellule.testing.entropy import SeededEntropy
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

FOLDERS = load_app(Path(__file__).parents[2] / "node_apps" / "folders.py")
NOWHERE = [Link(cid_of(f"never stored {number}".encode(), "raw")) for number in range(5)]
LONG = "x" * 9_000


async def filled(world):
    """Links inline and in blocks, in events, states, a queue and a dead cell's messages."""
    await world.send(FOLDERS.Filed("short", NOWHERE[0]))
    await world.send(FOLDERS.Filed("long", NOWHERE[1], LONG))
    with pytest.raises(StepFailed):
        await world.send(FOLDERS.Filed("halted", NOWHERE[2], "fail"))
    await world.send(FOLDERS.Filed("halted", NOWHERE[3], LONG), wait="durable")
    await world.snapshot()
    await world.send(FOLDERS.Filed("short", NOWHERE[4], LONG))


@in_virtual_time
async def test_a_world_whose_values_link_what_is_not_stored_is_sound(opened):
    """Once `check` called it damaged."""
    async with opened(app=FOLDERS.app) as node:
        world = await node.world("w")
        await filled(world)
        cas = node.node.cas(world.info.universe)
        checked = await check_world(node.node.loader, world.info, cas)
        assert checked.absent == len(NOWHERE)
        await cas.put(b"never stored 3", "raw")
        again = await check_world(node.node.loader, world.info, cas)
        assert (again.absent, again.nodes) == (len(NOWHERE) - 1, checked.nodes + 1)
        assert (await world.cell(FOLDERS.folder, "long").state()).files == [NOWHERE[1]]


@in_virtual_time
async def test_every_block_that_a_world_needs_itself_is_missed(opened):
    """What only a user's value names may be missing, and nothing else."""
    async with opened(app=FOLDERS.app) as node:
        world = await node.world("w")
        await filled(world)
        engine, universe = node.node.engine, world.info.universe
        page = await engine.scan(*keys.cas_range(universe), limit=1_000)
        assert len(page.items) > 5
        missed = 0
        for key, row in page.items:
            await engine.commit(Batch(clear=[key]))
            fresh = Cas(engine, universe, entropy=SeededEntropy(0, "check"))  # nothing is cached
            try:
                await check_world(node.node.loader, world.info, fresh)
            except Corrupted:
                missed += 1
            await engine.commit(Batch(set={key: row}))
        assert missed == len(page.items)


def test_a_testing_world_with_such_links_replays():
    world = World(FOLDERS.app)
    world.send(FOLDERS.Filed("a", NOWHERE[0], LONG))
    assert world.state("folder", "a").files == [NOWHERE[0]]
    world.assert_replays()
    world.close()
