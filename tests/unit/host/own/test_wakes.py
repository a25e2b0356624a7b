"""What wakes worlds: sleeping worlds cost nothing, and whoever puts items does not queue for a shared row."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from cellule.errors import Corrupted, Gone, Unavailable
from cellule.host.inbox.inbox import enqueue
from cellule.host.own.directory import read_head
from cellule.host.own.ready_row import is_shared, unshared
from cellule.store import keys
from cellule.store.engine import Batch, counter_value
from cellule.store.engines.memory import MemoryEngine
from cellule.testing.clock import VirtualClock
from cellule.values.cbor import encode
from cellule.values.envelope import seal
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

ALARMS = load_app(Path(__file__).parents[3] / "node_apps" / "alarms.py")
MINUTE_S = 60


@pytest.fixture
def scans(monkeypatch):
    """All scans of memory engines."""
    made = []
    scan = MemoryEngine.scan

    async def counted(self, begin, end, **more):
        made.append(begin)
        return await scan(self, begin, end, **more)

    monkeypatch.setattr(MemoryEngine, "scan", counted)
    return made


async def scans_while_idle(node, scans):
    await asyncio.sleep(2)
    scans.clear()
    await asyncio.sleep(MINUTE_S)
    return len(scans)


@in_virtual_time
async def test_sleeping_worlds_cost_no_scans(opened, scans):
    """Beyond 1,000 of them a node made 3,960 scans a minute instead of 121."""
    clock = VirtualClock()
    async with opened(clock=clock) as node:
        few = await scans_while_idle(node, scans)
        far_ns = clock.now_ns() + 10**15
        for number in range(3_000):
            world = UUID(int=number)
            key = keys.wake(keys.shard_of(world), far_ns + number, UUID(int=1), world)
            await node.node.engine.commit(Batch(set={key: b""}))
    async with opened(clock=clock) as node:
        assert await scans_while_idle(node, scans) <= few + 2  # a look more or less in a minute


@in_virtual_time
async def test_a_world_that_left_memory_is_woken_by_its_timer(opened):
    async with opened(app=ALARMS.app, clock=VirtualClock(), idle_s=1) as node:
        world = await node.world("w")
        await world.send(ALARMS.Set("a", 1, 1))
        await asyncio.sleep(30)
        assert not node.node.is_loaded(world.id)
        await asyncio.sleep(60)
        assert (await world.cell(ALARMS.alarm, "a").state()).fired == 1


@in_virtual_time
async def test_a_world_that_cannot_be_reached_holds_back_no_timer_of_another(opened, monkeypatch):
    """Due worlds are roused in turn: the first that could not be opened kept all others asleep."""
    clock, tried = VirtualClock(), []
    async with opened(app=ALARMS.app, clock=clock, idle_s=1) as node:
        names = [f"w{number}" for number in range(6)]
        for name in names:
            await (await node.world(name)).send(ALARMS.Set("a", 1, 1))
        infos = sorted((await node.worlds()), key=lambda each: keys.shard_of(each.id))
        hosted = node.node.hosted
        first = infos[0].id

        async def reached(info, *more):
            if info.id == first:
                tried.append(info.name)
                raise Unavailable("objects.unavailable", "its objects cannot be reached")
            return await hosted(info, *more)

        monkeypatch.setattr(type(node.node), "hosted", lambda _, *given: reached(*given))
        engine = node.node.engine
        before = [(await read_head(engine, info)).height for info in infos]
        await asyncio.sleep(120)
        after = [(await read_head(engine, info)).height for info in infos]
        monkeypatch.undo()
        assert len(tried) > 10  # it is tried on
        assert [new > old for old, new in zip(before, after, strict=True)] == [False, *[True] * 5]


@in_virtual_time
async def test_the_first_enqueuer_rings_and_the_others_only_expect(opened, tally):
    async with opened(clock=VirtualClock()) as node:
        info = (await node.world("w")).info
    engine = MemoryEngine(opened.disk)
    shard = keys.shard_of(info.id)
    ready, bell = keys.ready(shard, info.universe, info.id), keys.bell(shard)
    rung = counter_value((await engine.read([bell]))[0])

    async def put(number):
        await enqueue(engine, info.universe, info.id, [poke(f"cell {number}")], bytes([number]) * 16)
        return await engine.read([ready, bell])

    first = await put(1)
    assert is_shared(first[0])
    assert counter_value(first[1]) == rung + 1
    assert await put(2) == first
    await engine.commit(Batch(set={ready: unshared(first[0])}))  # the owner is about to clear it
    third = await put(3)
    assert third[0] not in (first[0], unshared(first[0]))
    assert (is_shared(third[0]), counter_value(third[1])) == (True, rung + 2)


@in_virtual_time
async def test_items_that_came_behind_a_shared_value_are_taken_before_it_is_cleared(
    opened, tally, monkeypatch
):
    """The owner looked, others put items without writing `ready`, and the owner cleared it."""
    late = []
    async with opened(clock=VirtualClock()) as node:
        world = await node.world("w")
        info, engine = world.info, node.node.engine
        hosted = await node.node.hosted(info)
        commit = hosted._committer.commit

        async def commit_after_another(group, patience):
            if not late and any(each.ready is not None for each in group):
                late.append(await enqueue(engine, info.universe, info.id, [poke("late")], b"2" * 16))
            has_news = await commit(group, patience)
            waiting = {kind for kind in (b"inbox", b"ready") for key in opened.disk.dump() if kind in key}
            assert waiting != {b"inbox"}, "a crash now would leave items that wake nobody"
            return has_news

        monkeypatch.setattr(hosted._committer, "commit", commit_after_another)
        await enqueue(engine, info.universe, info.id, [poke("early")], b"1" * 16)
        await asyncio.sleep(5)
        assert late
        for name in ("early", "late"):
            assert await world.cell(tally.brief, name).state() is not None
        left = {key for key in opened.disk.dump() if b"inbox" in key or b"ready" in key}
        assert left == set()


def poke(name):
    return {"kind": "event", "schema": "tally/Poke@1", "value": seal(encode({"name": name})), "id": name}


@in_virtual_time
async def test_nothing_is_put_into_the_inbox_of_a_world_that_is_not_there(opened, tally):
    async with opened(clock=VirtualClock()) as node:
        info = (await node.world("w")).info
        engine = node.node.engine
        await node.delete_world("w")
        with pytest.raises(Gone):
            await enqueue(engine, info.universe, info.id, [poke("late")], b"1" * 16)
        with pytest.raises(Corrupted):
            await enqueue(engine, info.universe, UUID(int=5), [poke("late")], b"1" * 16)
        assert not [key for key in opened.disk.dump() if b"inbox" in key or b"ready" in key]
