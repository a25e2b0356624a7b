"""Requests to the owner of a world from other processes: done by it, noted in the journal, done once."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from cellule.errors import Unavailable
from cellule.host.inbox.inbox import enqueue
from cellule.host.inbox.requests import Request
from cellule.host.own.directory import baseline_of
from cellule.kernel.journal.records import ControlRecord, RefusedRecord, SnapshotRecord
from cellule.store import keys
from cellule.store.engines.memory import MemoryEngine
from cellule.values.link import Link
from tests.support.virtual_tests import in_virtual_time


async def records(world):
    return [record async for frame in world.frames() for record in frame.records]


async def first(world, kind):
    """The first record of a kind, once it is durable."""
    async with aclosing(world.tail(after=0)) as frames:
        async for frame in frames:
            for _, record in frame.of(kind):
                return record
    raise AssertionError("the journal ended")


async def ask(engine, info, row):
    await enqueue(engine, info.universe, info.id, [row], bytes(16))


@in_virtual_time
async def test_the_owner_takes_the_snapshot_that_another_process_asks_for(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world = await node.world("w")
        await world.send(tally.Add("a", 5))
        height, root = await (await other.world("w")).snapshot(who="ann", why="before the update")
        [baseline] = await node.node.engine.read([keys.world_baseline(world.info.universe, world.id)])
        assert baseline_of(baseline) == (height, root)
        control, noted = (await records(world))[-2:]
        assert (control.verb, control.who, control.why) == ("snapshot", "ann", "before the update")
        assert noted == SnapshotRecord(noted.cause, height, Link(root))


@in_virtual_time
async def test_a_request_leaves_no_row_behind(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world = await node.world("w")
        await (await other.world("w")).snapshot()
        engine, info = node.node.engine, world.info
        ready = keys.ready(keys.shard_of(info.id), info.universe, info.id)
        while (seen := (await engine.read([ready]))[0]) is not None:
            await engine.watch(ready, seen)
        assert not (await engine.scan(*keys.inbox_range(info.universe, info.id), limit=1)).items


@in_virtual_time
async def test_several_processes_may_ask_while_events_go_on(opened, tally):
    async with opened() as node, opened(owner=False) as one, opened(owner=False) as two:
        world = await node.world("w")
        far = [await one.world("w"), await two.world("w")]
        events = [world.send(tally.Add("a", 1)) for _ in range(20)]
        *_, first, second = await asyncio.gather(*events, far[0].snapshot(), far[1].snapshot())
        assert await world.cell(tally.account, "a").state() == tally.Account(20, 20)
        noted = [
            (record.height, record.snapshot.cid)
            for record in await records(world)
            if isinstance(record, SnapshotRecord)
        ]
        assert {first, second} == set(noted)


@in_virtual_time
async def test_a_request_that_waited_for_an_owner_is_done_when_there_is_one(opened, tally):
    async with opened() as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 5))
    await ask(MemoryEngine(opened.disk), world.info, Request("ann", "later", bytes(16)).row())
    async with opened(app=None) as node:
        world = await node.world("w")
        control = await first(world, ControlRecord)
        assert (control.verb, control.who, control.why) == ("snapshot", "ann", "later")
        assert control.arguments["request"] == bytes(16)


@in_virtual_time
async def test_the_request_outlives_a_store_that_cannot_take_the_snapshot_now(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world = await node.world("w")
        await world.send(tally.Add("a", 5))
        hosted = await node.node.hosted(world.info)
        fails = iter([Unavailable("store.busy", "not now")])
        put_many = hosted._cas.put_many

        async def put(*arguments, **named):
            for error in fails:
                raise error
            return await put_many(*arguments, **named)

        hosted._snapshots._cas.put_many = put
        height, _ = await (await other.world("w")).snapshot()
        assert height > 1
        assert next(fails, None) is None


@pytest.mark.parametrize(
    "wrong",
    [{"what": "dance"}, {"who": 1}, {"id": "text"}, {"why": None}],
    ids=["unknown", "who", "id", "why"],
)
@in_virtual_time
async def test_a_row_that_is_no_request_is_refused_in_the_journal(node, tally, wrong):
    world = await node.world("w")
    row = {**Request("ann", "x", bytes(16)).row(), **wrong}
    await ask(node.node.engine, world.info, row)
    assert (await first(world, RefusedRecord)).code == "host.inbox_item"
