"""Copies of worlds for readers that do not own them, and handles: what is kept in memory, how long."""

from __future__ import annotations

import gc

from cellule.host.read.follower import Follower
from cellule.testing.clock import VirtualClock
from tests.support.virtual_tests import in_virtual_time


@in_virtual_time
async def test_a_follower_starts_again_at_a_newer_baseline(opened, tally):
    """It kept everything that had changed since the baseline it had once started at."""
    async with opened(clock=VirtualClock()) as node:
        world = await node.world("w")
        follower = Follower(node.node.loader, world.info, node.node.cas(world.info.universe))
        for turn in range(1, 4):
            await world.send(tally.Add("a", 1))
            before = await follower.world()
            assert await follower.world() is before
            height, _ = await world.snapshot()
            await world.send(tally.Add("b", 1))
            after = await follower.world()
            assert after is not before
            assert after.ledger.height == (await world.head()).height > height
            for name in ("a", "b"):
                entry = await follower.look("tally/account", name.encode())
                assert entry.version == turn


@in_virtual_time
async def test_handles_leave_memory_with_their_users(opened):
    """A node kept a handle for every world it was ever asked for."""
    async with opened(clock=VirtualClock()) as node:
        kept = await node.world("kept")
        for number in range(20):
            await node.world(f"w {number}")
        gc.collect()
        assert len(node._handles) == 1
        assert len(node._turns) == 0
        assert await node.world("kept") is kept


@in_virtual_time
async def test_a_world_that_is_missing_is_made_without_a_look_at_all_others(opened, monkeypatch):
    """The names of all worlds were read and compared for an error that nobody saw."""
    async with opened(clock=VirtualClock()) as node:
        await node.world("first")
        listed = []
        worlds = type(node.node.directory).worlds

        async def counted(self, universe):
            listed.append(universe)
            return await worlds(self, universe)

        monkeypatch.setattr(type(node.node.directory), "worlds", counted)
        await node.world("second")
        assert listed == []
