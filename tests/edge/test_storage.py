"""Storage through the public API on every kind of store: compaction, collection, exports, beside work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule.errors import Gone
from cellule.store import keys
from tests.support.nodes import load_app

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")


async def busy(node, name, rounds=4):
    """A world with long and short states and some snapshots."""
    world = await node.world(name)
    for number in range(rounds):
        await world.send_many([TALLY.Keep(f"k{key}", f"{number} {key} " + "y" * 2_000) for key in range(60)])
        await world.send(TALLY.Keep("long", f"{number}" + "x" * 300_000))
        await world.snapshot()
    return world


async def test_a_store_stays_small_and_whole(place):
    """Trim, compact and collect beside a world at work; then everything replays from what is left."""
    async with place.open(TALLY.app) as node:
        world = await busy(node, "main")
        await busy(node, "old", rounds=2)
        await node.delete_world("old")
        storage = await node.storage("main")
        await storage.retain(history="drop", snapshots=1)

        async def send():
            for number in range(50):
                await world.send(TALLY.Add("a", number))

        await asyncio.gather(send(), storage.compact(everything=True), node.collect_garbage(grace_s=0))
        await world.snapshot()
        await storage.compact(everything=True)
        would = await node.collect_garbage(dry_run=True)
        for _ in range(2):
            done = await node.collect_garbage(grace_s=0)
        assert done.counts.waiting == 0
        assert would.counts.kept >= done.counts.kept > 0
        assert (await node.explain_retention((await storage.snapshots())[-1].cid)).root is not None
        assert (await world.cell(TALLY.account, "a").state()).count == 50
    async with place.store() as store:
        begin, end = keys.journal_range(world.info.universe, world.id)
        assert len((await store.engine.scan(begin, end, limit=1_000)).items) < 100
    await place.prove()


async def test_all_is_archived_reopened_and_appended(place):
    async with place.open(TALLY.app) as node:
        world = await busy(node, "main")
        await node.node.release(world.info)
        frames, head = [frame.cid async for frame in world.frames()], await world.head()
        assert (await (await node.storage("main")).compact(everything=True)).segments >= 1
    async with place.open(TALLY.app) as node:
        world = await node.world("main")
        assert (await world.send(TALLY.Add("a", 1))).height == head.height + 1
        assert [frame.cid async for frame in world.frames()][: len(frames)] == frames
        await node.collect_garbage(grace_s=0)
    await place.prove()


async def test_history_that_was_dropped_is_gone(place, monkeypatch):
    monkeypatch.setattr("cellule.host.storage.compaction.SEGMENT_BYTES", 100_000)
    async with place.open(TALLY.app) as node:
        world = await busy(node, "main")
        storage = await node.storage("main")
        await storage.retain(history="drop", snapshots=1)
        await world.snapshot()
        assert (await storage.compact(everything=True)).dropped > 0
        with pytest.raises(Gone):
            _ = [frame async for frame in world.frames()]
        await node.collect_garbage(grace_s=0)
    await place.prove()


async def test_a_world_moves_to_another_store(place, another_place, tmp_path):
    async with place.open(TALLY.app) as node:
        world = await busy(node, "main")
        done = await node.export_world("main", tmp_path / "main.car")
        frames = [frame.cid async for frame in world.frames()]
    async with another_place.open(TALLY.app) as node:
        await node.import_world(tmp_path / "main.car", name="moved")
        again = await node.world("moved")
        assert [frame.cid async for frame in again.frames()][: done.frames] == frames[: done.frames]
        assert (await again.cell(TALLY.shelf, "k3").state()).text.startswith("3 3")
        await again.send(TALLY.Add("a", 1))
        await node.collect_garbage(grace_s=0)
    await another_place.prove()


async def test_collections_beside_a_fork_and_an_import_lose_nothing(place, tmp_path):
    async with place.open(TALLY.app) as node:
        await busy(node, "main", rounds=2)
        await busy(node, "gone", rounds=1)
        await node.export_world("gone", tmp_path / "gone.car")
        await node.delete_world("gone")

        async def collect():
            for _ in range(4):
                await node.collect_garbage(grace_s=0)

        await asyncio.gather(
            collect(), node.fork_world("main", "child"), node.import_world(tmp_path / "gone.car", name="back")
        )
        await collect()
        for name in ("main", "child", "back"):
            world = await node.world(name, create=False)
            assert (await world.cell(TALLY.shelf, "k1").state()) is not None
    await place.prove()
