"""Quotas of a universe: refusals that name the quota, at the edge, with nothing changed; usage is shown."""

from __future__ import annotations

import asyncio

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.host.limits import QUOTA_COUNTED_S, QUOTA_LOOK_S
from cellule.host.storage import storage
from cellule.host.storage.quotas import Quotas
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
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


@in_virtual_time
async def test_a_universe_whose_quotas_cannot_be_read_leaves_those_of_others_in_force(opened, tally):
    """The owner measured no universe behind the first that was damaged, and let everything through."""
    async with opened() as node:
        for name in ("a", "b"):
            await node.create_universe(name)
            await node.create_world("w", universe=name)
        await node.set_quotas(Quotas(cells=1), universe="b")
        await (await node.world("w", universe="b")).send(tally.Add("a", 1))
        await (await node.world("w", universe="b")).snapshot()
        first = (await node.node.universe("a")).id
        await node.node.engine.commit(Batch(set={keys.universe_quotas(first): b"odd"}))
    async with opened() as node:
        world = await node.world("w", universe="b")
        await asyncio.sleep(2 * QUOTA_LOOK_S)
        with pytest.raises(Rejected) as caught:
            await world.send(tally.Add("b", 1))
        assert caught.value.code == "host.quota"


@in_virtual_time
async def test_events_of_guests_count_and_are_refused_before_the_inbox(opened, tally):
    """A process that does not own the store could send as much as it liked."""
    async with opened() as node, opened(owner=False, entropy=SeededEntropy(1, "guest")) as guest:
        await node.world("w")
        world = await guest.world("w")
        await node.set_quotas(Quotas(events_per_s=10))
        for _ in range(20):
            await world.send(tally.Add("a", 1), wait="durable")
        await refused(world.send(tally.Add("a", 1), wait="durable"), "events_per_s")
        await refused(world.heartbeat.signal("/x"), "events_per_s")
        await world.control("pause", who="ann", why="people may still act")
        await world.control("resume", who="ann", why="people may still act")
        await asyncio.sleep(2)
        assert (await world.cell("account", "a").state()).count == 20
        for _ in range(10):
            await world.send(tally.Add("a", 1), wait="durable")


@in_virtual_time
async def test_the_owner_and_its_guests_share_one_quota_of_events(opened, tally):
    async with opened() as node, opened(owner=False, entropy=SeededEntropy(1, "guest")) as guest:
        own, world = await node.world("w"), await guest.world("w")
        await node.set_quotas(Quotas(events_per_s=10))
        await asyncio.sleep(1.5)
        await own.send_many([tally.Add("a", 1)] * 18)
        await asyncio.sleep(1)
        await refused_soon(lambda: world.send(tally.Add("a", 1), wait="durable"), at_most=22)
        await asyncio.sleep(1)
        await refused_soon(lambda: own.send(tally.Add("a", 1)), at_most=22)
        await asyncio.sleep(30)
        await own.send_many([tally.Add("a", 1)] * 20)


async def refused_soon(send, at_most):
    async def often():
        for _ in range(at_most):
            await send()

    await refused(often(), "events_per_s")


@in_virtual_time
async def test_a_send_with_a_timeout_counts_too(node, tally):
    """Once it went past the quota."""
    world = await node.world("w")
    await node.set_quotas(Quotas(events_per_s=1))
    await world.send_many([tally.Add("a", 1)] * 2)
    await refused(world.send(tally.Add("a", 1), timeout=5), "events_per_s")
    await refused(world.heartbeat.signal("/x"), "events_per_s")


@in_virtual_time
async def test_guests_heed_the_cells_and_bytes_that_the_owner_measured(opened, tally):
    async with opened() as node, opened(owner=False, entropy=SeededEntropy(1, "guest")) as guest:
        world = await node.world("w")
        await world.send_many([tally.Keep(f"k{number}", "x") for number in range(5)])
        await world.snapshot()
        await node.set_quotas(Quotas(cells=5))
        await refused((await guest.world("w")).send(tally.Keep("new", "x"), wait="durable"), "cells")
        await node.set_quotas(Quotas(cells=6))
        await (await guest.world("w")).send(tally.Keep("new", "x"), wait="durable")


@in_virtual_time
async def test_counters_of_events_go_with_time_and_with_the_universe(opened, tally):
    async with opened() as node, opened(owner=False, entropy=SeededEntropy(1, "guest")) as guest:
        await node.create_universe("u")
        universe = (await node.node.universe("u")).id
        await node.world("w", universe="u")
        await node.set_quotas(Quotas(events_per_s=10), universe="u")
        world = await guest.world("w", universe="u")
        for _ in range(60):
            await world.send(tally.Add("a", 1), wait="durable")
            await asyncio.sleep(1)
        counters = keys.universe_events(universe, 0), keys.universe_events(universe, 1 << 40)
        page = await node.node.engine.scan(*counters, limit=100)
        assert 0 < len(page.items) <= 2 * QUOTA_COUNTED_S + 1
        await node.delete_world("w", universe="u")
        await node.delete_universe("u")
        assert not (await node.node.engine.scan(*counters, limit=1)).items


@pytest.mark.parametrize("wrong", [{"worlds": -1}, {"cells": 1 << 63}])
def test_a_quota_is_a_number_from_0(wrong):
    with pytest.raises(Rejected) as caught:
        Quotas(**wrong)
    assert caught.value.code == "host.quota_value"


@pytest.mark.parametrize("row", [b"", encode(5), encode({}), None])
@in_virtual_time
async def test_a_universe_that_cannot_be_measured_ends_nobody(opened, tally, row, monkeypatch):
    """A baseline that was no baseline ended the node at its next look at the quotas, and all its worlds."""
    async with opened() as node:
        world, other = await node.world("w"), await node.world("other")
        await node.set_quotas(Quotas(worlds=5))
        baseline = keys.world_baseline(other.info.universe, other.info.id)
        [sound] = await node.node.engine.read([baseline])
        if row is None:  # a defect of our own
            monkeypatch.setattr(storage, "read_quotas", lambda *_: 1 // 0)
        else:
            await node.node.engine.commit(Batch(set={baseline: row}))
            with pytest.raises(Corrupted) as caught:
                await node.usage()
            assert caught.value.code == "host.row_unreadable"
        await asyncio.sleep(2 * QUOTA_LOOK_S)
        assert (await world.send(tally.Add("a", 1))).steps
        await node.node.engine.commit(Batch(set={baseline: sound}))
