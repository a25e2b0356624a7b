"""Quotas of a universe: refusals that name the quota, at the edge, with nothing changed; usage is shown."""

from __future__ import annotations

import asyncio

import pytest

from cellule.errors import Rejected
from cellule.host.limits import QUOTA_LOOK_S
from cellule.host.storage.quotas import Quotas
from tests.support.virtual_tests import in_virtual_time


async def refused(call, quota):
    with pytest.raises(Rejected) as caught:
        await call
    assert caught.value.code == "host.quota"
    assert quota in str(caught.value)
    assert "universe default" in str(caught.value)


@in_virtual_time
async def test_a_universe_has_no_more_worlds_than_its_quota(node, tally, tmp_path):
    world = await node.world("one")
    await world.send(tally.Add("a", 1))
    await node.export_world("one", tmp_path / "one.car")
    await node.set_quotas(Quotas(worlds=1))
    await refused(node.world("two"), "worlds")
    await refused(node.fork_world("one", "two"), "worlds")
    await refused(node.import_world(tmp_path / "one.car", name="two"), "worlds")
    assert [each.name for each in await node.worlds()] == ["one"]
    await node.set_quotas(Quotas(worlds=2))
    await node.world("two")


@in_virtual_time
async def test_events_beyond_the_rate_are_refused_and_taken_again_later(node, tally):
    world = await node.world("w")
    await node.set_quotas(Quotas(events_per_s=10))
    await world.send_many([tally.Add("a", 1) for _ in range(20)])
    head = await world.head()
    await refused(world.send(tally.Add("a", 1)), "events_per_s")
    await refused(world.send_many([tally.Add("a", 1)] * 5), "events_per_s")
    assert await world.head() == head
    await asyncio.sleep(1)
    for _ in range(10):
        await world.send(tally.Add("a", 1))
    await refused(world.send(tally.Add("a", 1)), "events_per_s")
    assert (await world.cell("account", "a").state()).count == 30


@in_virtual_time
async def test_cells_and_bytes_are_measured_and_refuse_further_events(node, tally):
    world = await node.world("w")
    await world.send_many([tally.Keep(f"k{number}", f"{number}" + "x" * 1_000) for number in range(50)])
    await world.snapshot()
    usage = await node.usage()
    assert (usage.worlds, usage.snapshots, usage.cells) == (1, 2, 50)
    assert usage.stored_bytes > 50_000
    for quotas, name in ((Quotas(cells=50), "cells"), (Quotas(stored_bytes=1_000), "stored_bytes")):
        await node.set_quotas(quotas)
        await refused(world.send(tally.Add("a", 1)), name)
        await world.control("pause", who="ann", why="people may still act")
        await world.control("resume", who="ann", why="people may still act")
    await node.set_quotas(Quotas())
    await world.send(tally.Add("a", 1))


@in_virtual_time
async def test_more_snapshots_than_the_quota_are_not_kept(node, tally):
    await node.world("w")
    await node.set_quotas(Quotas(snapshots=3))
    storage = await node.storage("w")
    await storage.retain(snapshots=4)
    with pytest.raises(Rejected) as caught:
        await storage.retain(snapshots=7)
    assert caught.value.code == "host.quota"
    assert (await storage.retention()).snapshots == 4


@in_virtual_time
async def test_quotas_that_another_process_sets_are_heeded_within_seconds(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world = await node.world("w")
        await other.set_quotas(Quotas(cells=0))
        assert await node.quotas() == Quotas(cells=0)
        await asyncio.sleep(QUOTA_LOOK_S + 1)
        await refused(world.send(tally.Add("a", 1)), "cells")


@pytest.mark.parametrize("wrong", [{"worlds": -1}, {"cells": 1 << 63}])
def test_a_quota_is_a_number_from_0(wrong):
    with pytest.raises(Rejected) as caught:
        Quotas(**wrong)
    assert caught.value.code == "host.quota_value"
