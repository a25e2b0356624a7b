"""Collection of garbage on a node: what goes, what stays, and that it may stop and go on anywhere."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path

import pytest

from cellule.errors import Corrupted, Rejected, Unavailable
from cellule.host.limits import COLLECT_CLAIM_S, COLLECT_GRACE_S
from cellule.host.own.directory import Directory
from cellule.host.storage.collection_state import DONE, MARK, ORPHANS, SWEEP
from cellule.host.storage.marks import Marks, PageRead
from cellule.host.storage.storage import Storage
from cellule.kernel.journal.links import Links, links_of_block
from cellule.store import keys
from cellule.store.cas import OVERTAKEN_ROOT, Cas
from cellule.store.engines.memory import MemoryEngine
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import Faults
from cellule.testing.faulty_engine import FaultyEngine
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.nodes import check_store, load_app
from tests.support.virtual_tests import in_virtual_time

LONG = "x" * 40_000
FOLDERS = load_app(Path(__file__).parents[3] / "node_apps" / "folders.py")


async def filled(node, tally, name="w", rounds=3):
    """A world with long states and several snapshots."""
    world = await node.world(name)
    for number in range(rounds):
        for key in range(20):
            await world.send(tally.Keep(f"k{key}", f"{number} {key} {name} " + "y" * 5_000))
        await world.send(tally.Keep("long", f"{number} {name}" + LONG))
        await world.snapshot()
    return world


async def stored(node):
    """All objects of the universe."""
    cas, found, after = node.node.cas(await universe_of(node)), [], None
    while page := await cas.entries(limit=500, after=after):
        found += page
        after = page[-1].cid
    return found


async def universe_of(node):
    return (await node.node.universe()).id


async def collected(node, **more):
    return await node.node.storage.collect(await universe_of(node), **more)


@in_virtual_time
async def test_everything_in_use_stays_and_replays(node, tally):
    world = await filled(node, tally)
    for _ in range(3):
        done = await collected(node, grace_s=0)
    assert done.counts.kept == len(await stored(node))
    await node.node.release(world.info)
    await world.send(tally.Keep("k1", "after"))
    assert (await world.cell("shelf", "long").state()).text.startswith("2 w")


@in_virtual_time
async def test_a_deleted_world_leaves_no_objects(node, tally):
    await filled(node, tally, "stays")
    before = {each.cid for each in await stored(node)}
    await filled(node, tally, "goes")
    await node.delete_world("goes")
    await collected(node, grace_s=0)
    assert {each.cid for each in await stored(node)} <= before


@in_virtual_time
async def test_snapshots_that_were_replaced_go(node, tally):
    await filled(node, tally, rounds=2)
    few = await collected(node, grace_s=0)
    world = await node.world("w")
    for _ in range(6):
        await world.send(tally.Keep("k1", "again"))
        await world.snapshot()
    many = await collected(node, grace_s=0)
    assert many.counts.removed > 0
    assert many.counts.kept < few.counts.kept + 20


@in_virtual_time
async def test_what_nothing_links_stays_for_the_grace_period(node, tally):
    await filled(node, tally)
    cas = node.node.cas(await universe_of(node))
    cid = await cas.put(b"nobody links this", "raw")
    for _ in range(3):
        done = await collected(node)
    assert await cas.has(cid)
    assert done.counts.waiting >= 1
    for _ in range(2):
        await asyncio.sleep(COLLECT_GRACE_S + 1)
        await collected(node)
    assert not await cas.has(cid)


@in_virtual_time
async def test_a_dry_run_tells_what_would_go_and_changes_nothing(opened, tally):
    async with opened() as node:
        await filled(node, tally, "goes")
        await filled(node, tally, "stays")
        await node.delete_world("goes")
        await collected(node)
        await asyncio.sleep(COLLECT_GRACE_S + 1)
    rows = await all_rows(opened)
    async with opened() as node:
        would = await node.node.storage.would_collect(await universe_of(node))
    assert await all_rows(opened) == rows
    async with opened() as node:
        done = await collected(node)
    assert would.counts == done.counts
    assert done.counts.removed_bytes > 100_000


async def all_rows(opened):
    return [row async for page in MemoryEngine(opened.disk).rows() for row in page]


@in_virtual_time
async def test_a_pin_keeps_a_block_and_what_it_links_until_it_expires(node, tally):
    world = await filled(node, tally, "goes")
    universe = await universe_of(node)
    [baseline] = await node.node.engine.read([keys.world_baseline(universe, world.id)])
    _, root = await world.snapshot()
    before = {each.cid for each in await stored(node)}
    pin = await node.node.storage.pins(universe).add([root], 7_200, who="ann", why="to look at it")
    await node.delete_world("goes")
    await collected(node, grace_s=0)
    kept = {each.cid for each in await stored(node)}
    assert root in kept
    assert len(kept) > 5
    assert baseline is not None
    await asyncio.sleep(7_300)
    await collected(node, grace_s=0)
    assert root not in {each.cid for each in await stored(node)}
    assert await node.node.storage.pins(universe).all() == []
    assert pin.cids == (root,)
    assert kept <= before


@in_virtual_time
async def test_a_pin_of_what_is_not_stored_is_refused(node):
    pins = node.node.storage.pins(await universe_of(node))
    with pytest.raises(Rejected, match="no object") as caught:
        await pins.add([cid_of(b"never")], 60, who="ann", why="by mistake")
    assert caught.value.code == "cas.not_found"
    for seconds in (0, -1, 1e12):
        with pytest.raises(Rejected) as caught:
            await pins.add([cid_of(b"never")], seconds, who="ann", why="by mistake")
        assert caught.value.code == "host.pin_time"


@in_virtual_time
async def test_a_block_of_ours_that_is_missing_stops_the_collection(opened, tally):
    async with opened() as node:
        world = await filled(node, tally)
        _, root = await world.snapshot()
        await node.delete_world("w")
        universe = await universe_of(node)
        await node.node.storage.pins(universe).add([root], 7_200, who="ann", why="kept")
        [part] = [each for each in (await stored(node)) if each.cid == root]
        children = await node.node.storage.explain(universe, root)
        assert children.root is not None
        index = (await linked(node, root))[0]
        entry = await node.node.cas(universe).entry(index)
        before = len(await stored(node))
        await node.node.cas(universe).remove_if(index, entry.generation)
        with pytest.raises(Corrupted) as caught:
            await collected(node, grace_s=0)
        assert caught.value.code == "host.collection_block_missing"
        assert len(await stored(node)) == before - 1
        assert part.size > 0


async def forget(node, cid):
    """A block is lost, as by damage."""
    cas = node.node.cas(await universe_of(node))
    await cas.remove_if(cid, (await cas.entry(cid)).generation)


@pytest.mark.parametrize("dry", [False, True])
@in_virtual_time
async def test_a_pinned_block_that_is_lost_does_not_keep_a_collection_going(node, tally, dry):
    """What was not there lost its mark, was new again at the next look at the pins, and so on for ever."""
    await filled(node, tally)
    cas = node.node.cas(await universe_of(node))
    lost = await cas.put(b"to be lost", "raw")
    await node.pin([lost], 7_200)
    await forget(node, lost)
    async with asyncio.timeout(60):
        done = await node.collect_garbage(grace_s=0, dry_run=dry)
    assert (done.phase, done.counts.dangling) == (DONE, 1)


@in_virtual_time
async def test_an_effect_that_links_what_is_not_stored_does_not_keep_a_collection_going(opened):
    """No collection ended while such an effect waited for its next attempt."""
    async with opened(app=FOLDERS.app) as node:
        world = await node.world("w")
        await world.send(FOLDERS.Filed("a", Link(cid_of(b"never stored")), "copy"))
        assert [each.kind for each in await world.effects()] == ["folders.copy"]
        async with asyncio.timeout(60):
            done = await node.collect_garbage(grace_s=0)
        assert done.phase == DONE
        await world.send(FOLDERS.Filed("a", Link(cid_of(b"never stored"))))


async def linked(node, cid):
    return sorted(links_of_block(await node.node.cas(await universe_of(node)).get(cid)).ours)


@in_virtual_time
async def test_why_an_object_is_kept_is_a_way_from_a_root(node, tally):
    world = await filled(node, tally)
    universe = await universe_of(node)
    _, root = await world.snapshot()
    found = await node.node.storage.explain(universe, (await linked(node, root))[0])
    assert "world w" in found.root
    assert len(found.path) >= 1
    loose = await node.node.cas(universe).put(b"loose", "raw")
    nothing = await node.node.storage.explain(universe, loose)
    assert (nothing.root, nothing.size, nothing.generation) == (None, 5, 0)
    assert (await node.node.storage.explain(universe, cid_of(b"never"))).size is None


class StopHereError(Exception):
    """A test interrupts a collection."""


def stop_at(phase):
    def stop(state):
        if state.phase == phase:
            raise StopHereError

    return stop


@in_virtual_time
async def test_only_one_process_collects_in_a_universe(opened, tally):
    async with opened() as node, opened(owner=False, entropy=SeededEntropy(1, "other")) as other:
        await filled(node, tally)
        with pytest.raises(StopHereError):
            await collected(node, progress=stop_at(SWEEP))
        with pytest.raises(Unavailable) as caught:
            await collected(other)
        assert caught.value.code == "host.collecting"
        await asyncio.sleep(COLLECT_CLAIM_S + 1)
        assert (await collected(other)).phase == DONE


@in_virtual_time
async def test_a_collector_that_was_overtaken_changes_nothing_any_more(opened, tally):
    async with opened() as node, opened(owner=False, entropy=SeededEntropy(1, "other")) as other:
        await filled(node, tally)
        universe = await universe_of(node)
        marks = Marks(node.node.engine, universe)
        with pytest.raises(StopHereError):
            await collected(node, progress=stop_at(SWEEP))
        stale = await marks.read_state()
        await asyncio.sleep(COLLECT_CLAIM_S + 1)
        await collected(other)
        cids = [each.cid for each in await stored(node)]
        nothing, done = Links(set(), set()), PageRead(cids, [], stale)
        calls = (lambda: marks.marked(cids), lambda: marks.move(stale), lambda: marks.reach(nothing, done))
        for call in calls:
            with pytest.raises(Unavailable) as caught:
                await call()
            assert caught.value.code == "host.collection_taken"


@pytest.mark.parametrize("phase", [MARK, SWEEP, ORPHANS])
@in_virtual_time
async def test_a_collection_that_was_interrupted_goes_on(opened, tally, phase):
    async with opened() as node:
        await filled(node, tally, "goes")
        await filled(node, tally, "stays")
        await node.delete_world("goes")
        await collected(node)
        await asyncio.sleep(COLLECT_GRACE_S + 1)
        with pytest.raises(StopHereError):
            await collected(node, progress=stop_at(phase))
    async with opened() as node:
        done = await collected(node)
        assert (done.phase, done.counts.waiting) == (DONE, 0)
        assert {each.cid for each in await stored(node)} == await reachable(node)
        marks = await node.node.engine.scan(*keys.cas_mark_range(await universe_of(node)), limit=1)
        assert not marks.items


async def reachable(node):
    """Everything that is kept, found in another way: each object is explained."""
    universe = await universe_of(node)
    found = set()
    for each in await stored(node):
        if (await node.node.storage.explain(universe, each.cid)).root is not None:
            found.add(each.cid)
    return found


@in_virtual_time
async def test_a_crash_at_any_commit_of_a_collection_loses_nothing(opened, tally, programs):
    """Each commit in turn is the last one of its process; another process finishes the collection."""
    async with opened() as node:
        await filled(node, tally, "goes")
        await filled(node, tally, "stays", rounds=2)
        await node.delete_world("goes")
        await collected(node)
        await asyncio.sleep(COLLECT_GRACE_S + 1)
        clock = node.node.clock
    fatal, is_done = 0, False
    while not is_done:
        fatal += 1
        disk = copy.deepcopy(opened.disk)
        is_done = await dies_at(disk, fatal, clock)
        async with opened(MemoryEngine(disk)) as node:
            await asyncio.sleep(COLLECT_CLAIM_S + 1)
            await collected(node)
            assert {each.cid for each in await stored(node)} == await reachable(node)
        await check_store(MemoryEngine(disk), programs)
    assert fatal > 15


async def dies_at(disk, fatal, clock):
    """Collect with a process that ends at its n-th commit; tell whether it came to the end before."""
    engine = DyingEngine(MemoryEngine(disk), fatal)
    directory = Directory(engine, clock, SeededEntropy(2, "dies"))
    universe = (await directory.universe("default")).id
    storage = Storage(
        engine, lambda universe, cache=None: Cas(engine, universe, cache=cache), directory, clock,
        SeededEntropy(0, "node"),
    )  # fmt: skip
    try:
        await storage.collect(universe)
    except StopHereError:
        return False
    return True


class DyingEngine:
    """An engine whose n-th commit is the last: it is applied, and the process that made it is gone."""

    def __init__(self, engine, fatal):
        self._engine = engine
        self.read, self.scan = engine.read, engine.scan
        self._left = fatal

    async def commit(self, batch):
        self._left -= 1
        stamps = await self._engine.commit(batch)
        if self._left <= 0:
            raise StopHereError
        return stamps


@in_virtual_time
async def test_a_snapshot_that_two_collections_overtake_is_written_again(node, tally):
    """Its first nodes may be gone by the time it is saved, so nothing of it is used."""
    world = await filled(node, tally, rounds=1)
    hosted = await node.node.hosted(world.info)
    snapshots = hosted._snapshots
    await world.send(tally.Keep("k1", "changed" * 2_000))
    write, times = snapshots._write, 0

    async def overtaken(world):
        nonlocal times
        times += 1
        await write(world)
        if times == 1:
            assert snapshots._root is not None or snapshots._asked_for is not None
            await collected(node, grace_s=0)

    snapshots._write = overtaken
    height, root = await world.snapshot()
    assert times > 1
    await collected(node, grace_s=0)
    assert await node.node.cas(await universe_of(node)).has(root)
    assert height > 0


@in_virtual_time
async def test_a_long_event_in_the_inbox_is_not_collected(opened, tally):
    async with opened(owner=False) as guest:
        async with opened() as node:
            await filled(node, tally, rounds=1)
        world = await guest.world("w")
        await world.send(tally.Keep("late", "z" * 100_000), wait="durable")
        for _ in range(3):
            await collected(guest, grace_s=0)
    async with opened() as node:
        world = await node.world("w")
        state = await world.cell("shelf", "late").wait_until(lambda kept: kept is not None)
        assert state is not None


@in_virtual_time
async def test_what_was_put_two_collections_ago_cannot_be_rooted(node):
    cas = node.node.cas(await universe_of(node))
    since = await cas.generation()
    await cas.advance_generation()
    await cas.witness(since)
    await cas.advance_generation()
    with pytest.raises(Unavailable) as caught:
        await cas.witness(since)
    assert caught.value.code == OVERTAKEN_ROOT


@pytest.mark.parametrize("seed", range(8))
def test_collections_beside_worlds_at_work_remove_nothing_they_need(on_node, tally, seed):
    """Sends, snapshots, deletions and new worlds beside collections without grace, in the order of a seed."""

    async def main(opened):
        async with opened() as node:
            await asyncio.gather(
                *(busy(node, tally, seed, number) for number in range(3)),
                collecting(node),
                retiring(node, tally),
            )
        async with opened() as node:
            for number in range(3):
                world = await node.world(f"w{number}")
                assert await world.send(tally.Ask("a"), wait="reply") is not None

    on_node(main, seed=seed)


async def busy(node, tally, seed, number):
    world = await node.world(f"w{number}")
    dice = SeededEntropy(seed, f"busy {number}")
    for turn in range(25):
        choice = dice.bytes(1)[0]
        await asyncio.sleep(choice / 1_000)
        if choice < 60:
            await world.snapshot()
        elif choice < 120:
            await world.send(tally.Keep(f"k{choice % 7}", f"{turn}" + "l" * 40_000))
        elif choice < 140:
            await node.node.release(world.info)
        else:
            await world.send(tally.Add("a", turn))


async def collecting(node):
    for _ in range(12):
        await asyncio.sleep(0.2)
        await collected(node, grace_s=0)


async def retiring(node, tally):
    for number in range(4):
        world = await node.world(f"old{number}")
        await world.send(tally.Keep("k", "o" * 50_000))
        await world.snapshot()
        await asyncio.sleep(0.3)
        await node.delete_world(f"old{number}")


@pytest.mark.parametrize("size", [10, 90_000])
def test_an_object_that_an_event_links_is_kept_though_a_collection_is_about_to_sweep_it(on_node, size):
    """The roots were read already, so nothing but the batch of the frame can keep it."""

    async def main(opened):
        async with opened(app=FOLDERS.app) as node:
            world, universe = await node.world("w"), await universe_of(node)
            await world.send(FOLDERS.Filed("before", Link(cid_of(b"never stored"))))
            cas = node.node.cas(universe)
            linked, loose = [await cas.put(text * size, "raw") for text in (b"linked", b"loose")]
            with pytest.raises(StopHereError):
                await collected(node, grace_s=0, progress=stop_at(SWEEP))
            await world.send(FOLDERS.Filed("a", Link(linked), "x" * size))
            await collected(node)
            assert not await cas.has(loose)
            for _ in range(2):
                assert await cas.has(linked)
                await collected(node, grace_s=0)
            assert "world w" in (await node.node.storage.explain(universe, linked)).root
            assert await Cas(node.node.engine, universe).get(linked) == b"linked" * size

    on_node(main)


@in_virtual_time
async def test_a_collection_takes_the_share_of_the_time_that_it_is_given(opened, tally):
    async with opened() as node:
        await filled(node, tally)
        await collected(node, grace_s=0)
    engine = FaultyEngine(MemoryEngine(opened.disk), Faults(delay=1.0), entropy=SeededEntropy(3))
    took = {}
    async with opened(engine) as node:
        clock = node.node.clock
        for share in (1.0, 0.2):
            began_ns = clock.monotonic_ns()
            await collected(node, grace_s=0, share=share)
            took[share] = clock.monotonic_ns() - began_ns
    assert 3.5 < took[0.2] / took[1.0] < 6
