"""Many worlds on one node: loading, leaving, waking; the inbox; what another process may do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from cellule.errors import Corrupted, Gone, Rejected, Unavailable
from cellule.host.inbox.item_fields import UNREADABLE
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import RefusedRecord
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Fault, FaultyEngine, SeededEntropy, VirtualClock
from cellule.values.cbor import encode
from tests.support.nodes import events_of
from tests.support.virtual_tests import in_virtual_time


@in_virtual_time
async def test_worlds_and_universes_keep_apart(node, tally):
    await node.create_universe("second")
    one, two = await node.world("w"), await node.world("w", universe="second")
    await one.send(tally.Add("a", 1), id="same")
    await two.send(tally.Add("a", 2), id="same")
    assert (await one.cell(tally.account, "a").state()).total == 1
    assert (await two.cell(tally.account, "a").state()).total == 2
    assert [each.name for each in await node.universes()] == ["default", "second"]
    assert [each.name for each in await node.worlds("second")] == ["w"]
    with pytest.raises(Rejected) as caught:
        await node.world("w", universe="secnd")
    assert (caught.value.code, "second" in str(caught.value)) == ("host.no_universe", True)
    with pytest.raises(Rejected) as caught:
        await node.world("v", create=False)
    assert (caught.value.code, "There are: w." in str(caught.value)) == ("host.no_world", True)


@in_virtual_time
async def test_worlds_made_at_the_same_time_are_all_made_once(node, tally):
    """Both put the same blocks: the one that came second was once told that its world exists."""
    await node.universes()
    await asyncio.gather(*(node.world(f"w{n % 5}") for n in range(20)))
    assert len(await node.worlds()) == 5
    results = await asyncio.gather(*(node.create_world("fresh") for _ in range(3)), return_exceptions=True)
    codes = [each.code for each in results if isinstance(each, Rejected)]
    assert codes == ["host.world_exists"] * 2


@in_virtual_time
async def test_an_idle_world_leaves_memory_and_comes_back_as_it_was(opened, tally):
    async with opened(clock=VirtualClock(), idle_s=5) as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        assert node.node.loaded == 1
        await asyncio.sleep(10)
        assert node.node.loaded == 0
        await world.send(tally.Add("a", 1))
        assert await world.cell(tally.account, "a").state() == tally.Account(2, 2)


@in_virtual_time
async def test_more_worlds_than_fit_memory_take_turns(opened, tally):
    async with opened(clock=VirtualClock(), worlds_max=3) as node:
        worlds = [await node.world(f"w{n}") for n in range(12)]
        for turn in range(3):
            for world in worlds:
                await world.send(tally.Add("a", 1), id=f"{turn}")
        await asyncio.sleep(2)
        assert node.node.loaded <= 3
        for world in worlds:
            assert (await world.cell(tally.account, "a").state()).count == 3


def test_sends_during_eviction_are_all_applied(on_node, tally):
    async def main(opened):
        async with opened(clock=VirtualClock(), snapshot_bytes=2_000) as node:
            world = await node.world("w")

            async def evict():
                for _ in range(30):
                    await node.node.release(world.info)
                    await asyncio.sleep(0.001)

            async def send(number):
                for each in range(10):
                    await world.send(tally.Add("a", 1), id=f"{number}/{each}")
                    assert (await world.cell(tally.account, "a").state()).count > 0

            await asyncio.gather(evict(), *(send(number) for number in range(20)))
            assert (await world.cell(tally.account, "a").state()).count == 200

    for seed in range(5):
        on_node(main, seed=seed)


@in_virtual_time
async def test_a_timer_wakes_a_world_that_is_not_in_memory(opened, tally):
    async with opened(clock=VirtualClock(), idle_s=2) as node:
        world = await node.world("w")
        await world.send(tally.Poke("p"))
        assert (await world.head()).wake_ns is not None
        await asyncio.sleep(10)
        assert node.node.loaded == 0
        await asyncio.sleep(25)
        assert (await world.head()).wake_ns is None
        assert await world.cell(tally.brief, "p").state() is None


@in_virtual_time
async def test_a_timer_of_a_stopped_node_fires_after_the_next_start(opened, tally):
    clock = VirtualClock()
    async with opened(clock=clock) as node:
        await (await node.world("w")).send(tally.Poke("p"))
    clock.jump(3_600_000_000_000)
    async with opened(clock=clock) as node:
        await asyncio.sleep(3)
        assert node.node.loaded == 1
        head = await (await node.world("w")).head()
        assert head.wake_ns is None


@in_virtual_time
async def test_a_clock_that_goes_back_stops_nothing_and_journal_time_never_does(opened, tally):
    clock = VirtualClock()
    async with opened(clock=clock) as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        clock.jump(-3_600_000_000_000)
        await world.send(tally.Add("a", 1))
        await world.send(tally.Poke("p"))
        times = [frame.header.now_ns async for frame in world.frames()]
        assert times == sorted(times)
        clock.jump(2 * 3_600_000_000_000)
        await asyncio.sleep(60)
        assert await world.cell(tally.brief, "p").state() is None


@in_virtual_time
async def test_a_paused_world_admits_and_does_not_step(opened, tally):
    async with opened(clock=VirtualClock(), idle_s=3) as node:
        world = await node.world("w")
        await world.control("pause", who="me", why="test")
        applied = await world.send(tally.Add("a", 1), id="one", wait="durable")
        assert applied.height > 0
        await asyncio.sleep(10)
        assert node.node.loaded == 0
        assert (await world.cell(tally.account, "a").view()).queue == 1
        await world.control("resume", who="me", why="test")
        assert (await world.wait_applied("one")).steps
        assert (await world.cell(tally.account, "a").state()).count == 1


# Other processes


@in_virtual_time
async def test_another_process_reads_sends_and_gets_outcomes(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world = await node.world("w")
        far = await other.world("w")
        assert not other.is_owner
        sent = await far.send(tally.Add("a", 5), id="far", wait="reply")
        assert (sent.reply, sent.duplicate) == (5, False)
        again = await far.send(tally.Add("a", 5), id="far", wait="reply")
        assert (again.reply, again.duplicate, again.height) == (5, True, sent.height)
        assert (await world.send(tally.Add("a", 5), id="far")).duplicate
        assert await far.cell(tally.account, "a").state() == tally.Account(5, 1)
        durable = await far.send(tally.Add("a", 1), id="later", wait="durable")
        assert durable.id == "later"
        assert (await world.send(tally.Add("a", 1), id="later")).steps[0].version == 2
        assert (await far.wait_applied("later")).steps[0].version == 2
        long = "x" * 200_000
        await far.send(tally.Keep("k", long))
        assert (await far.cell(tally.shelf, "k").state()).text == long


@in_virtual_time
async def test_another_process_is_refused_at_the_edge_without_a_record(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world, far = await node.world("w"), await other.world("w")
        await world.send(tally.Add("a", 1))
        before = opened.disk.dump()
        for event, options, code in (
            (tally.Unheard("x"), {}, "routing.no_subscriber"),
            (tally.Add("a", 1, "x" * 1_000_001), {}, "host.event_size"),
            (tally.Both("a"), {"wait": "reply"}, "host.reply_targets"),
            (tally.Both("a"), {"expected_version": 1}, "host.expected_version_targets"),
        ):
            with pytest.raises(Rejected) as caught:
                await far.send(event, **options)
            assert caught.value.code == code
        with pytest.raises(Unavailable) as refused:
            await far.send_nowait(tally.Add("a", 1))
        assert refused.value.code == "host.not_owner"
        with pytest.raises(Unavailable, match="another process"):
            await other.delete_world("w")
        assert opened.disk.dump() == before


@in_virtual_time
async def test_controls_from_another_process_are_journaled_and_refusals_come_back(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world, far = await node.world("w"), await other.world("w")
        await far.control("pause", who="ops", why="maintenance")
        assert (await node.node.hosted(world.info)).world.ledger.paused
        await far.control("resume", who="ops", why="done")
        with pytest.raises(Rejected) as caught:
            await far.control("cell.resume", who="ops", why="x", module="tally/account", key=b"a")
        assert caught.value.code == "kernel.not_stopped"


@in_virtual_time
async def test_items_enqueued_while_nobody_owns_the_store_are_found_at_the_next_start(opened, tally):
    async with opened() as node:
        await node.world("w")
    async with opened(owner=False) as other:
        far = await other.world("w")
        for number in range(5):
            await far.send(tally.Add("a", 1), id=f"n{number}", wait="durable")
    async with opened() as node, opened(owner=False) as other:
        far = await other.world("w")
        for number in range(5):
            assert (await far.send(tally.Add("a", 1), id=f"n{number}")).steps
        assert (await far.cell(tally.account, "a").state()).count == 5
        left = {key for key in opened.disk.dump() if b"inbox" in key or b"ready" in key}
        assert left == set()


def test_a_crash_between_taking_and_committing_loses_no_inbox_item(on_node, tally):
    """`ready` was once cleared before the frame was durable; then nobody woke the world again."""

    async def main(opened, entropy):
        async with opened() as node, opened(owner=False) as other:
            await node.world("w")
            far = await other.world("w")
        async with opened(owner=False) as other:
            far = await other.world("w")
            await far.send(tally.Add("a", 1), id="one", wait="durable")

        class NoFrames:
            def fault(self, operation, number, entropy):
                stuck = operation == "commit" and number > 1  # the first takes the epoch
                return Fault(before_ns=3_600_000_000_000) if stuck else Fault()

            def late_ns(self, entropy):
                return 0

        engine = FaultyEngine(MemoryEngine(opened.disk), NoFrames(), entropy=entropy)

        async def doomed():
            async with opened(engine):
                await asyncio.sleep(3_600)

        task = asyncio.create_task(doomed())
        await asyncio.sleep(30)
        engine.crash()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with opened() as node, opened(owner=False) as other:
            far = await other.world("w")
            await asyncio.sleep(5)
            assert (await far.wait_applied("one")).steps

    for seed in range(6):
        on_node(lambda opened, seed=seed: main(opened, SeededEntropy(seed)))


@in_virtual_time
async def test_a_row_that_is_no_item_becomes_a_refusal_and_the_next_is_taken(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world, far = await node.world("w"), await other.world("w")
        prefix = keys.inbox_prefix(world.info.universe, world.id)
        shard = keys.shard_of(world.id)
        rows = [b"\xff\xff", encode({"kind": "dance"}), encode({"kind": "event", "schema": 5, "id": "x"})]
        await node.node.engine.commit(
            Batch(
                set={keys.ready(shard, world.info.universe, world.id): b"odd"},
                add={keys.bell(shard): 1},
                ordered=[(prefix, row) for row in rows],
            )
        )
        await far.send(tally.Add("a", 1))
        refused = [record.schema async for frame in world.frames() for _, record in frame.of(RefusedRecord)]
        assert refused == [UNREADABLE] * 3


@in_virtual_time
async def test_tail_resumes_where_it_was_and_ends_with_the_world(opened, tally):
    async with opened() as node, opened(owner=False) as other:
        world, far = await node.world("w"), await other.world("w")
        seen = []

        async def follow(after):
            async for frame in far.tail(after):
                seen.append((frame.header.first, frame.header.last))
                if len(seen) % 5 == 0:
                    return

        following = asyncio.create_task(follow(0))
        for number in range(10):
            await world.send(tally.Add("a", number))
        await following
        await follow(seen[-1][1])
        heights = [0, *(height for first, last in seen for height in (first, last))]
        assert all(second[0] == first[1] + 1 for first, second in pairwise(seen))
        assert heights[-1] <= (await world.head()).height
        tailing = asyncio.create_task(anext(far.tail()))
        await asyncio.sleep(0.01)
        await node.delete_world("w")
        with pytest.raises(Gone):
            await tailing


@in_virtual_time
async def test_a_deleted_world_is_gone_and_its_name_is_free(opened, tally):
    async with opened(clock=VirtualClock()) as node:
        world = await node.world("w")
        await world.send(tally.Poke("p"))
        with pytest.raises(Rejected) as caught:
            await node.delete_universe("default")
        assert caught.value.code == "host.universe_not_empty"
        universe = await node.node.universe()
        await node.delete_world("w")
        gone = [keys.world_gone(world.info.universe, world.id)]
        assert [key for key in opened.disk.dump() if world.id.bytes in key] == gone
        again = await node.world("w")
        assert again.id != world.id
        assert await again.cell(tally.brief, "p").state() is None
        await node.node.engine.commit(
            Batch(
                set={keys.ready(keys.shard_of(world.id), world.info.universe, world.id): b"late"},
                add={keys.bell(keys.shard_of(world.id)): 1},
            )
        )
        await asyncio.sleep(5)
        assert [key for key in opened.disk.dump() if world.id.bytes in key] == gone
        for use in (
            lambda: world.send(tally.Poke("p")),
            lambda: world.cell(tally.brief, "p").state(),
            lambda: anext(world.tail(0)),
            lambda: node.node.directory.world(universe, str(world.id)),
        ):
            with pytest.raises(Gone) as caught:
                await use()
            assert caught.value.code == "host.world_gone"
        assert [key for key in opened.disk.dump() if world.id.bytes in key] == gone


# Snapshots and the past


@in_virtual_time
async def test_snapshots_are_taken_in_slices_while_beats_go_on_and_old_ones_leave(opened, tally):
    async with opened(snapshot_bytes=20_000) as node:
        world = await node.world("w")
        for turn in range(12):
            await world.send_many([tally.Add(f"k{turn}-{n}", 1, "x" * 20) for n in range(100)])
        await world.snapshot()
        page = await node.node.engine.scan(*keys.snapshot_range(world.info.universe, world.id), limit=100)
        heights = [keys.snapshot_height(key) for key, _ in page.items]
        assert heights[0] == 0
        assert 2 <= len(heights) <= 3
    reads = []
    async with opened() as node:
        world = await node.world("w")
        hosted = await node.node.hosted(world.info, lambda *at: reads.append(at))
        assert hosted.world.ledger.height >= heights[-1]
        assert (await world.cell(tally.account, "k3-7").state()).count == 1


@in_virtual_time
async def test_a_cell_is_read_as_of_a_height_or_a_time(opened, tally):
    clock = VirtualClock()
    async with opened(clock=clock, snapshot_bytes=3_000) as node:
        world = await node.world("w")
        heights, times = [], []
        for number in range(40):
            applied = await world.send(tally.Add("a", 1))
            heights.append(applied.steps[0].height)
            times.append(datetime.fromtimestamp(clock.now_ns() // 10**9, UTC) + timedelta(seconds=1))
            await asyncio.sleep(2)
            assert number + 1 == (await world.cell(tally.account, "a").state()).count
        cell = world.cell(tally.account, "a")
        for number in range(0, 40, 7):
            assert (await cell.state(at=heights[number])).count == number + 1
            assert (await cell.state(at=times[number])).count == number + 1
        assert await cell.state(at=0) is None
        assert [version.state.count for version in await cell.history(limit=3)] == [40, 39, 38]
        with pytest.raises(Rejected) as caught:
            await cell.state(at=10_000)
        assert caught.value.code == "host.height"
        with pytest.raises(Rejected) as caught:
            await cell.state(at=datetime(2024, 1, 1))  # noqa: DTZ001 - that is the point
        assert caught.value.code == "host.naive_time"


@in_virtual_time
async def test_restore_reports_its_progress(opened, tally):
    async with opened() as node:
        world = await node.world("w")
        for _ in range(10):
            await world.send(tally.Add("a", 1))
        info, head = world.info, await world.head()
    seen = []
    async with opened(app=None) as node:
        await node.node.hosted(info, lambda height, last: seen.append((height, last)))
        assert seen[-1] == (head.height, head.height)
        assert len(seen) >= 10
        stored = await node.world("w")
        applied = await stored.send(("Add", {"account": "a", "amount": 1}), wait="reply")
        assert applied.reply == 11
        assert await stored.cell("account", "a").state() == {"count": 11, "total": 11}


def test_a_damaged_world_stops_alone(on_node, tally):
    async def main(opened):
        async with opened() as node:
            world, other = await node.world("w"), await node.world("other")
            await world.send(tally.Add("a", 1))
            info = world.info
        engine = MemoryEngine(opened.disk)
        head = await world_head(engine, info)
        row = keys.journal(info.universe, info.id, head)
        [frame] = await engine.read([row])
        await engine.commit(Batch(set={row: frame[:-1] + bytes((frame[-1] ^ 1,))}))
        async with opened() as node:
            with pytest.raises(Corrupted):
                await node.world("w")
            other = await node.world("other")
            await other.send(tally.Add("a", 1))
        await engine.commit(Batch(set={row: frame}))
        assert decode_frame(frame).header.last == head
        assert len(await events_of(engine, info)) == 2

    async def world_head(engine, info):
        from cellule.host.own.directory import read_head

        return (await read_head(engine, info)).height

    on_node(main)
