"""What a fork has of its parent: queues, operations, mailboxes; and what it has not: what nobody admitted."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cellule import StepFailed
from cellule.errors import Gone
from cellule.store import keys
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import VirtualClock
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faulty_engine import FaultyEngine
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

MAIL = load_app(Path(__file__).parents[2] / "node_apps" / "mail.py")


def guest(opened, engine=None):
    return opened(engine, owner=False, entropy=SeededEntropy(1, "guest"))


@in_virtual_time
async def test_what_waits_behind_a_stopped_cell_goes_on_in_both(node, tally):
    world = await node.world("w")
    with pytest.raises(StepFailed):
        await world.send(tally.Fail("a"))
    for amount in (1, 2):
        await world.send(tally.Add("a", amount), wait="durable")
    child = await node.fork_world("w", "child")
    for each, extra in ((child, 10), (world, 20)):
        await each.operator("ann").drop("account", "a", why="it fails")
        await each.send(tally.Add("a", extra))
        assert (await each.cell("account", "a").state()).total == 3 + extra


@in_virtual_time
async def test_what_the_parents_inbox_holds_stays_the_parents(opened, tally):
    async with guest(opened) as other:
        async with opened() as node:
            await (await node.world("w")).send(tally.Add("a", 1))
            await (await node.world("w")).snapshot()
        world = await other.world("w")
        await world.send(tally.Add("a", 10), wait="durable", id="late")
        child = await other.fork_world("w", "child")
        begin, end = keys.inbox_range(child.info.universe, child.id)
        assert not (await other.node.engine.scan(begin, end, limit=1)).items
    async with opened() as node:
        for name, total in (("w", 11), ("child", 1)):
            world = await node.world(name, create=False)
            await world.send(tally.Ask("a"), reply=int)
            await world.wait_idle()
            assert (await world.cell("account", "a").state()).total == total


@in_virtual_time
async def test_a_fork_of_a_snapshot_is_one_batch_and_one_of_the_past_tells_how_far_it_is(opened, tally):
    async with opened() as node:
        world = await node.world("w")
        for number in range(40):
            await world.send(tally.Add(f"a{number}", 1))
        before = await world.head()
        await world.snapshot()
        taken = (await (await node.storage("w")).snapshots())[-1].height
    engine, told = FaultyEngine(MemoryEngine(opened.disk), entropy=SeededEntropy(0)), []
    async with guest(opened, engine) as other:
        await other.world("w", create=False)
        commits = engine.count("commit")
        await other.fork_world("w", "child", progress=lambda *each: told.append(each))
        assert engine.count("commit") == commits + 1
        assert told == []
        await other.fork_world("w", "past", at=before.height - 20, progress=lambda *each: told.append(each))
        assert told[-1] == (before.height - 20, before.height - 20)
        assert len(told) > 5
    async with opened() as node:
        assert (await node.world("child", create=False)).info.origin.height <= taken


@in_virtual_time
async def test_a_fork_begins_where_the_world_stood_at_a_time(opened, tally):
    clock = VirtualClock()
    async with opened(clock=clock) as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        await asyncio.sleep(60)
        moment = datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(
            microseconds=clock.now_ns() // 1_000
        )
        await asyncio.sleep(60)
        await world.send(tally.Add("a", 10))
        child = await node.fork_world("w", "child", at=moment)
        assert (await child.cell("account", "a").state()).total == 1
        assert (await world.cell("account", "a").state()).total == 11


@in_virtual_time
async def test_a_fork_of_the_newest_height_begins_there_though_the_world_goes_on(node, tally, monkeypatch):
    """It began where the world was by the time of the snapshot."""
    world = await node.world("w")
    await world.send(tally.Add("a", 1))
    height = (await world.head()).height
    hosted = await node.node.hosted(world.info)
    take = hosted.snapshot_now

    async def late():
        await world.send(tally.Add("a", 10))
        return await take()

    monkeypatch.setattr(type(hosted), "snapshot_now", lambda _self: late())
    child = await node.fork_world("w", "child", at=height)
    assert child.info.origin.height == height
    assert (await child.cell("account", "a").state()).total == 1


@in_virtual_time
async def test_operations_go_on_in_both(opened):
    async with opened() as node:
        world = await node.world("w")
        op = await world.op.start("op/import", "/env/a")
        await world.op.state(op, "ist:copy")
        await world.op.await_(op, "sts:ok", "/done")
        child = await node.fork_world("w", "child")
        await child.op.close(op, "sts:fail", summary="in the fork")
        assert (await world.op.get(op)).is_closed is False
        await world.op.close(op)
        assert (await world.op.get(op)).status == "sts:ok"
        assert (await child.op.get(op)).status == "sts:fail"
        assert [each.state for each in (await child.op.get(op)).history][:2] == ["ist:run", "ist:copy"]
        assert await child.op.start("op/import", "/env/b") != op


@in_virtual_time
async def test_mailboxes_go_on_in_both_and_their_messages_end_in_both(opened):
    async with opened(app=MAIL.app, clock=VirtualClock()) as node:
        world = await node.world("w")
        board = world.heartbeat.mailbox("/mail/news")
        await board.create()
        await board.post(1, id="short", ttl={"beats": 0, "unix_ns": 90 * 10**9})
        await board.post(2, id="ever", ttl={"forever": True})
        child = await node.fork_world("w", "child")
        copied = child.heartbeat.mailbox("/mail/news")
        await copied.acknowledge("ever", reader="eve")
        await board.post(3, id="later", ttl={"forever": True})
        assert [each.id for each in await copied.read(reader="eve")] == ["short"]
        await asyncio.sleep(200)
        assert sorted(each.id for each in await board.read(reader="eve")) == ["ever", "later"]
        assert await copied.read(reader="eve") == []


@in_virtual_time
async def test_a_child_is_checked_and_verified_after_its_parent_was_compacted_and_after_it_went(
    opened, tally
):
    """The fixture does it at the end: the parent's history is in segments, and then nowhere."""
    async with opened() as node:
        world = await node.world("w")
        for number in range(20):
            await world.send(tally.Add("a", number))
        await world.snapshot()
        child = await node.fork_world("w", "child")
        grandchild = await node.fork_world("child", "grandchild")
        for each in (world, child, grandchild):
            await each.send(tally.Add("a", 1))
            await each.snapshot()
        assert (await (await node.storage("w")).compact(everything=True)).segments == 1
        assert len([frame async for frame in grandchild.frames()]) > 20
        await node.delete_world("w", force=True)
        for _ in range(2):
            await node.collect_garbage(grace_s=0)
        with pytest.raises(Gone):
            _ = [frame async for frame in grandchild.frames()]
        assert (await grandchild.cell("account", "a").state()).total == 190 + 1
