"""Old frames in segments: every reader sees the same history, whatever was interrupted or dropped."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace

import pytest

from cellule.errors import Corrupted, Gone, Rejected
from cellule.host.own.directory import Directory, baseline_of
from cellule.host.segments import Segment
from cellule.host.storage.policy import StoragePolicy
from cellule.host.storage.share import TimeShare
from cellule.host.storage.storage import Storage
from cellule.kernel.journal.records import BaselineRecord, ControlRecord, SnapshotRecord
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.testing.entropy import SeededEntropy
from tests.support.nodes import check_store
from tests.support.virtual_tests import in_virtual_time

SMALL = StoragePolicy(tail_records=20)


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    """Segments of some frames, so that a few events make several."""
    monkeypatch.setattr("cellule.host.storage.compaction.SEGMENT_BYTES", 3_000)
    monkeypatch.setattr("cellule.host.storage.compaction.SEGMENT_BYTES_MIN", 1_000)
    monkeypatch.setattr("cellule.host.storage.compaction.SEGMENT_CLEAR_BYTES", 1_500)


async def filled(node, tally, rounds=4, name="w"):
    """A world with some snapshots and long frames."""
    world = await node.world(name)
    for number in range(rounds):
        for key in range(10):
            await world.send(tally.Keep(f"k{key}", f"{number} {key} " + "y" * 100))
        await world.send(tally.Keep("long", f"{number}" + "x" * 200_000))
        await world.snapshot()
    return world


async def frames_of(world):
    return [frame.cid async for frame in world.frames()]


async def rows_in(node, info, place):
    return (await node.node.engine.scan(*place(info.universe, info.id), limit=1_000)).items


@in_virtual_time
async def test_every_reader_sees_the_same_history_after_a_compaction(node, tally):
    world = await filled(node, tally)
    before, versions = await frames_of(world), await world.cell("shelf", "k3").history()
    done = await (await node.storage("w")).compact(everything=True)
    assert done.segments > 3
    assert len(await rows_in(node, world.info, keys.segment_range)) == done.segments
    assert (await frames_of(world))[: len(before)] == before
    assert await world.cell("shelf", "k3").history() == versions
    assert (await (await node.storage("w")).compact(everything=True)).segments == 0


@in_virtual_time
async def test_all_is_archived_reopened_and_appended(opened, tally):
    async with opened() as node:
        world = await filled(node, tally)
        await node.node.release(world.info)
        before, head = await frames_of(world), await world.head()
        await (await node.storage("w")).compact(everything=True)
        [baseline] = await node.node.engine.read([keys.world_baseline(world.info.universe, world.id)])
        tail = await rows_in(node, world.info, keys.journal_range)
        assert all(keys.journal_height(key) > baseline_of(baseline)[0] for key, _ in tail)
    async with opened() as node:
        world = await node.world("w")
        applied = await world.send(tally.Keep("k1", "after"))
        assert applied.height == head.height + 1
        assert (await frames_of(world))[: len(before)] == before


@in_virtual_time
async def test_a_new_snapshot_moves_what_is_far_from_the_head(opened, tally):
    async with opened(policy=SMALL) as node:
        world = await filled(node, tally)
        await asyncio.sleep(1)
        assert await rows_in(node, world.info, keys.segment_range)
        tail = await rows_in(node, world.info, keys.journal_range)
        head = await world.head()
        assert len({keys.journal_height(key) for key, _ in tail}) < 40
        assert max(keys.journal_height(key) for key, _ in tail) == head.height


@in_virtual_time
async def test_old_frames_move_however_few_they_are_but_not_less_than_a_segment_is_worth(opened, tally):
    async with opened(policy=replace(SMALL, tail_records=10_000, tail_s=3_600)) as node:
        world = await filled(node, tally)
        storage = await node.storage("w")
        assert (await storage.compact()).segments == 0
        await asyncio.sleep(3_700)
        assert (await storage.compact()).segments > 0
        assert (await storage.compact()).segments == 0
        assert len(await frames_of(world)) > 10


@in_virtual_time
async def test_a_crash_at_any_commit_of_a_compaction_changes_no_history(opened, tally, programs):
    async with opened() as node:
        world = await filled(node, tally, rounds=2)
        before = await frames_of(world)
        info, clock = world.info, node.node.clock
    fatal, is_done = 0, False
    while not is_done:
        fatal += 1
        disk = copy.deepcopy(opened.disk)
        is_done = await dies_at(disk, fatal, clock, info)
        await check_store(MemoryEngine(disk), programs)
        async with opened(MemoryEngine(disk)) as node:
            world = await node.world("w")
            assert (await frames_of(world))[: len(before)] == before
            await (await node.storage("w")).compact(everything=True)
            assert (await frames_of(world))[: len(before)] == before
            leftover = await rows_in(node, info, keys.journal_range)
            [last] = (await rows_in(node, info, keys.segment_range))[-1:]
            assert all(keys.journal_height(key) > Segment.of_row(last[1]).last for key, _ in leftover)
    assert fatal > 10


class StopHereError(Exception):
    """The process of a test ends."""


async def dies_at(disk, fatal, clock, info):
    """Compact with a process that ends at its n-th commit; tell whether it came to the end before."""
    engine, left = MemoryEngine(disk), fatal
    real = engine.commit

    async def commit(batch):
        nonlocal left
        left -= 1
        stamps = await real(batch)
        if left <= 0:
            raise StopHereError
        return stamps

    engine.commit = commit
    directory = Directory(engine, clock, SeededEntropy(2, "dies"))
    storage = Storage(
        engine, lambda universe, cache=None: Cas(engine, universe, cache=cache), directory, clock,
        SeededEntropy(0, "node"),
    )  # fmt: skip
    try:
        await storage.compact(info, everything=True)
    except StopHereError:
        return False
    return True


@in_virtual_time
async def test_readers_are_right_while_frames_move(node, tally):
    world = await filled(node, tally)
    before = await frames_of(world)
    moving = asyncio.ensure_future((await node.storage("w")).compact(everything=True))
    while not moving.done():
        assert (await frames_of(world))[: len(before)] == before
    assert (await moving).segments > 3


@in_virtual_time
async def test_two_processes_may_compact_at_once(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world = await filled(node, tally)
        before = await frames_of(world)
        storages = [await each.storage("w") for each in (node, other, node)]
        await asyncio.gather(*(each.compact(everything=True) for each in storages))
        assert (await frames_of(world))[: len(before)] == before
        rows = [Segment.of_row(value) for _, value in await rows_in(node, world.info, keys.segment_range)]
        assert [each.first for each in rows] == [1, *(each.last + 1 for each in rows[:-1])]


@in_virtual_time
async def test_work_in_the_background_leaves_most_of_the_time_to_others(opened):
    async with opened() as node:
        clock = node.node.clock
        time, began_ns = TimeShare(clock, 0.2), clock.monotonic_ns()
        for _ in range(3):
            await asyncio.sleep(2)  # the work
            await time.rest()
        assert clock.monotonic_ns() - began_ns == 3 * (2 + 8) * 10**9


@in_virtual_time
async def test_frames_are_not_archived_with_a_gap(opened, tally):
    async with opened() as node:
        world = await filled(node, tally)
        rows = await rows_in(node, world.info, keys.journal_range)
        gone, value = next(row for row in rows if keys.journal_height(row[0]) > 8)
        await node.node.engine.commit(Batch(clear=[gone]))
        with pytest.raises(Corrupted) as caught:
            await (await node.storage("w")).compact(everything=True)
        assert caught.value.code == "host.frame_missing"
        assert len(await rows_in(node, world.info, keys.journal_range)) >= len(rows) - 1
        assert not await rows_in(node, world.info, keys.segment_range)
        await node.node.engine.commit(Batch(set={gone: value}))


@in_virtual_time
async def test_dropped_history_is_gone_and_says_from_where_it_is_kept(opened, tally, programs):
    """Trim, then restore on an empty machine: what is left is enough, and verifies."""
    async with opened() as node:
        world = await filled(node, tally)
        storage = await node.storage("w")
        await storage.retain(history="drop")
        done = await storage.compact(everything=True)
        kept = await storage.snapshots()
        assert 0 < done.dropped <= kept[0].height
        assert kept[0].height > 0
        with pytest.raises(Gone) as caught:
            await frames_of(world)
        assert caught.value.code == "host.history_gone"
        assert str(done.dropped + 1) in str(caught.value)
        state = await world.cell("shelf", "k1").state()
        for _ in range(2):
            await node.collect_garbage(grace_s=0)
    disk = copy.deepcopy(opened.disk)
    await check_store(MemoryEngine(disk), programs)
    async with opened(MemoryEngine(disk)) as node:
        world = await node.world("w")
        assert await world.cell("shelf", "k1").state() == state
        await world.send(tally.Keep("k1", "after"))


@in_virtual_time
async def test_a_hold_keeps_history_that_would_be_dropped(node, tally):
    world = await filled(node, tally)
    storage = await node.storage("w")
    await storage.retain(history="drop")
    await storage.hold("a projection", 9)
    assert [(each.name, each.height) for each in await storage.holds()] == [("a projection", 9)]
    assert (await storage.compact(everything=True)).dropped < 9
    assert [frame async for frame in world.frames(first=9)]
    await storage.release("a projection")
    assert (await storage.compact(everything=True)).dropped >= 9
    with pytest.raises(Rejected) as caught:
        await storage.release("a projection")
    assert caught.value.code == "host.no_hold"


@in_virtual_time
async def test_history_is_kept_for_ever_unless_the_world_says_otherwise(node, tally):
    await filled(node, tally)
    storage = await node.storage("w")
    assert (await storage.retention()).history == "keep"
    assert (await storage.compact(everything=True)).dropped == 0
    for wrong in ({"history": "burn"}, {"snapshots": 0}, {"snapshots": 51}):
        with pytest.raises(Rejected):
            await storage.retain(**wrong)


@in_virtual_time
async def test_every_snapshot_is_noted_with_its_height_horizon_and_root(node, tally):
    world = await filled(node, tally, rounds=3)
    notes = [
        record async for frame in world.frames() for record in frame.records
        if isinstance(record, ControlRecord) and record.verb == "snapshot"
    ]  # fmt: skip
    kept = await (await node.storage("w")).snapshots()
    assert len(notes) == 3
    for note, snapshot in zip(notes[-2:], kept[-2:], strict=True):
        assert note.arguments["height"] == snapshot.height
        assert note.arguments["snapshot"].cid == snapshot.cid
        assert note.arguments["horizon"] == snapshot.horizon == snapshot.height + 1


@in_virtual_time
async def test_a_world_keeps_as_many_snapshots_as_it_is_told_to(node, tally):
    world = await node.world("w")
    storage = await node.storage("w")
    await storage.retain(snapshots=4)
    for number in range(8):
        await world.send(tally.Add("a", number))
        await world.snapshot()
    kept = await storage.snapshots()
    assert len(kept) == 5
    assert [each.is_baseline for each in kept] == [False] * 4 + [True]


@in_virtual_time
async def test_an_older_snapshot_is_made_the_baseline(opened, tally):
    async with opened() as node:
        world = await filled(node, tally)
        storage = await node.storage("w")
        older = (await storage.snapshots())[-2]
        await storage.promote(older.height, who="ann", why="the newest is damaged")
        found = {each.height: each.is_baseline for each in await storage.snapshots()}
        assert found[older.height]
        noted = [record async for frame in world.frames() for record in frame.records][-1]
        assert isinstance(noted, BaselineRecord)
        assert noted.height == older.height
        with pytest.raises(Rejected) as caught:
            await storage.promote(older.height + 1)
        assert caught.value.code == "host.no_such_snapshot"
    async with opened() as node:
        assert (await (await node.world("w")).cell("shelf", "k1").state()).text.startswith("3")


@in_virtual_time
async def test_snapshots_are_taken_after_a_time(opened, tally):
    async with opened(policy=StoragePolicy(snapshot_every_s=60), idle_s=1e9) as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        assert len(await (await node.storage("w")).snapshots()) == 1
        await asyncio.sleep(61)
        await world.send(tally.Add("a", 1))
        await asyncio.sleep(1)
        assert len(await (await node.storage("w")).snapshots()) == 2
        assert [
            record async for frame in world.frames() for record in frame.records
            if isinstance(record, SnapshotRecord)
        ]  # fmt: skip
