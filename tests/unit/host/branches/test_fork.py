"""Forks: where they begin, what they have of their parent, and what they never do again."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from cellule.errors import Gone, Rejected
from cellule.host.branches.fork import ForkOptions
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.journal.records import ForkRecord
from cellule.store import keys
from cellule.store.engines.memory import MemoryEngine
from tests.support.nodes import records_of
from tests.support.virtual_tests import in_virtual_time


async def status(world, pay, order):
    state = await world.cell(pay.order, order).state()
    return None if state is None else state.status


@in_virtual_time
async def test_both_sides_go_on_from_the_same_state_and_do_not_see_each_other(node, pay):
    world = await node.world("w")
    await world.send(pay.Placed("a", 1))
    await world.wait_idle()
    child = await node.fork_world("w", "try")
    assert await status(child, pay, "a") == await status(world, pay, "a") == "pay.charge ok"
    await world.send(pay.Placed("p", 1))
    await child.send(pay.Mailed("c"))
    assert await status(child, pay, "p") is None
    assert (await child.cell(pay.mailing, "c").state()) is not None
    assert (await world.cell(pay.mailing, "c").state()) is None


@in_virtual_time
async def test_a_fork_goes_on_at_the_next_height_and_its_history_is_the_parents(node, pay):
    world = await node.world("w")
    await world.send(pay.Placed("a", 1))
    await world.wait_idle()
    child = await node.fork_world("w", "try", who="ann", why="to see")
    origin = child.info.origin
    frames = {frame.header.last: frame async for frame in child.frames()}
    parent = {frame.header.last: frame async for frame in world.frames(1, origin.height)}
    assert {last: frame.cid for last, frame in frames.items() if last <= origin.height} == {
        last: frame.cid for last, frame in parent.items()
    }
    first = next(frame for frame in frames.values() if frame.header.first == origin.height + 1)
    record = first.expect(origin.height + 1, ForkRecord)
    assert (record.parent, record.height) == (world.id.bytes, origin.height)
    assert (record.extras["who"], record.extras["why"]) == ("ann", "to see")
    assert len(await child.cell(pay.order, "a").history()) == len(await world.cell(pay.order, "a").history())


@in_virtual_time
async def test_a_fork_never_repeats_what_its_parent_asked_for(opened, pay):
    async with opened() as node:
        bank, world = node.bank, await node.world("w")
        await world.send(pay.Placed("done", 1))
        await world.wait_idle()
        await world.send(pay.Placed("hold", 1))
        await bank.until(2)
        child = await node.fork_world("w", "try")
        await child.wait_idle()
        assert await status(child, pay, "hold") == "pay.charge cancelled"
        await child.send(pay.Placed("new", 1))
        await asyncio.sleep(10)
        assert bank.orders() == ["done", "hold"]
        [held] = await child.effects(status="held")
        assert (held.kind, held.idempotency_key) == ("pay.charge", "new")
        bank.waits.set()
        await world.wait_idle()
        assert await status(world, pay, "hold") == "pay.charge ok"
        assert await status(child, pay, "hold") == "pay.charge cancelled"


@in_virtual_time
async def test_a_live_fork_that_keeps_asks_again_with_the_parents_key(opened, pay):
    async with opened() as node:
        bank, world = node.bank, await node.world("w")
        await world.send(pay.Placed("hold", 1))
        [parent] = await world.effects()
        await bank.until(1)
        child = await node.fork_world("w", "try", effects="keep", live=True)
        [kept] = await child.effects()
        assert (kept.id, kept.height, kept.status) == (parent.id, parent.height, "open")
        assert (await child.effect(parent.id)).view.id == parent.id
        rendered = await RecordRenderer(child.follower).at(parent.height)
        assert rendered.fields["intent"] == parent.id
        await bank.until(2)
        assert bank.asked[0] == bank.asked[1]
        bank.waits.set()
        await world.wait_idle()
        await child.wait_idle()
        for each in (world, child):
            assert await status(each, pay, "hold") == "pay.charge ok"
        await child.send(pay.Placed("new", 1))
        await child.wait_idle()
        assert bank.orders() == ["hold", "hold", "new"]


@in_virtual_time
async def test_what_a_fork_holds_leaves_when_a_person_approves_it(opened, pay):
    async with opened() as node:
        bank, world = node.bank, await node.world("w")
        await world.send(pay.Placed("hold", 1))
        await bank.until(1)
        child = await node.fork_world("w", "try", effects="keep")
        await child.send(pay.Placed("new", 1))
        held = await child.effects(status="held")
        assert [each.idempotency_key for each in held] == ["hold", "new"]
        await child.approve(held[0].id, who="ann", why="one of them")
        await child.deny(held[1].id, who="ann", why="not the other")
        await bank.until(2)
        assert bank.asked[0] == bank.asked[1]
        bank.waits.set()
        await child.wait_idle()
        assert await status(child, pay, "hold") == "pay.charge ok"
        assert await status(child, pay, "new") == "pay.charge denied"


@in_virtual_time
async def test_a_fork_that_goes_live_asks_from_then_on(opened, pay):
    async with opened() as node:
        await node.world("w")
        child = await node.fork_world("w", "try")
        await child.send(pay.Placed("before", 1))
        await child.control("fork.live", who="ann", why="it is the real one now")
        await child.send(pay.Placed("after", 1))
        await asyncio.sleep(10)
        assert node.bank.orders() == ["after"]
        with pytest.raises(Rejected, match="already"):
            await child.control("fork.live", who="ann", why="again")


@in_virtual_time
async def test_recorded_effects_get_what_the_parent_got_in_their_order(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        start = await world.head()
        await world.send(pay.Placed("a", 1))
        await world.wait_idle()
        await world.send(pay.Placed("broke", 1))
        await world.wait_idle()
        asked = list(node.bank.asked)
        child = await node.fork_world("w", "again", at=start.height, effects="recorded")
        for order in ("a", "broke", "unknown"):
            await child.send(pay.Placed(order, 1))
        await asyncio.sleep(10)
        assert node.bank.asked == asked
        assert (await child.cell(pay.order, "a").state()).charge == "ch-a-1"
        assert (await status(child, pay, "broke")) == "pay.charge failed"
        assert [each.idempotency_key for each in await child.effects(status="held")] == ["unknown"]


@in_virtual_time
async def test_scripted_effects_get_what_somebody_wrote(opened, pay):
    async with opened() as node:
        bank, world = node.bank, await node.world("w")
        await world.send(pay.Placed("hold", 1))
        await bank.until(1)
        script = [
            {"kind": "pay.charge", "module": "pay/order", "key": "one", "status": "failed", "code": "no"},
            {"kind": "pay.charge", "value": {"id": "scripted"}, "always": True},
        ]
        child = await node.fork_world("w", "try", effects="scripted", script=script)
        for order in ("one", "two", "three"):
            await child.send(pay.Placed(order, 1))
        await child.wait_idle()
        found = {order: await status(child, pay, order) for order in ("hold", "one", "two", "three")}
        assert found == {
            "hold": "pay.charge ok",
            "one": "pay.charge failed",
            "two": "pay.charge ok",
            "three": "pay.charge ok",
        }
        assert bank.orders() == ["hold"]
        bank.waits.set()


@in_virtual_time
async def test_timers_schedules_and_approvals_go_on_in_both(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        await world.send(pay.Placed("nap", 1, "timer"))
        await world.send(pay.Placed("big", 5_000))
        child = await node.fork_world("w", "try")
        await asyncio.sleep(7 * 3_600)
        for each in (world, child):
            assert (await each.cell(pay.audits).state()).count >= 1
            assert [view.status for view in await each.effects()] == ["timer", "parked"]
        [nap, view] = await child.effects()
        assert nap.due_ns == (await world.effects(status="timer"))[0].due_ns
        await child.approve(view.id, who="ann", why="try")
        assert [each.status for each in await child.effects()] == ["timer", "held"]
        assert node.bank.asked == []


@in_virtual_time
async def test_a_fork_begins_at_the_last_whole_beat_and_says_which(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        for number in range(10):
            await world.send(pay.Placed(f"t{number}", 1, "timer"))
        frames = [frame async for frame in world.frames()]
        middle = frames[5]
        assert middle.header.last > middle.header.first
        child = await node.fork_world("w", "in-a-beat", at=middle.header.last - 1)
        assert child.info.origin.height == frames[4].header.last
        exact = await node.fork_world("w", "exact", at=middle.header.last)
        assert exact.info.origin.height == middle.header.last
        empty = await node.fork_world("w", "empty", at=0)
        assert empty.info.origin.height == 0
        for each, cells in ((child, 4), (exact, 5), (empty, 0)):
            assert len((await each.cells("pay/order")).cells) == cells
        for at in (-1, 10_000):
            with pytest.raises(Rejected, match="is not in the journal"):
                await node.fork_world("w", "nowhere", at=at)


@in_virtual_time
async def test_forks_of_forks_read_all_histories_through(opened, pay):
    async with opened() as node:
        await node.world("w")
        names = ["w", "one", "two", "three"]
        for parent, name in pairwise(names):
            world = await node.world(parent)
            await world.send(pay.Placed(f"of-{parent}", 1, "timer"))
            await node.fork_world(parent, name)
        last = await node.world("three")
        cells = (await last.cells(pay.order)).cells
        assert {cell.key for cell in cells} >= {"of-w", "of-one", "of-two"}
        ancestors = last.info.origin.ancestors
        assert [each.world for each in ancestors] == [(await node.world(name)).id for name in names[:3]]
        heights = [frame.header.first async for frame in last.frames()]
        assert heights[0] == 1
        back = await node.fork_world("three", "back", at=ancestors[0].last)
        assert back.info.origin.parent == (await node.world("w")).id


@in_virtual_time
async def test_a_fork_of_a_world_that_is_not_loaded_needs_no_owner_of_it(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        await world.send(pay.Placed("a", 1, "timer"))
        async with opened(owner=False) as guest:
            child = await guest.fork_world("w", "by-guest")
        assert await status(child, pay, "a") == "resting"
        await asyncio.sleep(10)  # the owner finds it by its wake row
        records = await records_of(node.node.engine, child.info)
        assert any(isinstance(record, ForkRecord) for _, record in records)


@in_virtual_time
async def test_a_world_with_forks_is_deleted_only_by_force_and_they_go_on(opened, pay):
    async with opened() as node:
        world = await node.world("w")
        await world.send(pay.Placed("a", 1, "timer"))
        child = await node.fork_world("w", "try")
        with pytest.raises(Rejected, match="1 worlds were forked from world w: try"):
            await node.delete_world("w")
        await node.delete_world("w", force=True)
        assert await status(child, pay, "a") == "resting"
        await child.send(pay.Mailed("c"))
        with pytest.raises(Gone, match="which was deleted"):
            [frame async for frame in child.frames()]
        assert [frame async for frame in child.frames(child.info.origin.height + 1)]


@in_virtual_time
async def test_the_past_that_a_deleted_ancestor_wrote_is_gone_and_not_empty(opened, pay):
    """It was read from the nearest snapshot that was left, without the steps in between."""
    async with opened() as node:
        oldest = await node.world("w")
        child = await node.fork_world("w", "child")
        await child.send(pay.Placed("a", 1, "timer"))
        height = (await child.head()).height
        await child.send(pay.Mailed("b"))
        grandchild = await node.fork_world("child", "grandchild")
        await grandchild.send(pay.Mailed("c"))
        assert await grandchild.cell("order", "a").state(at=height) is not None
        await node.delete_world("child", force=True)
        for call in (
            lambda: grandchild.cell("order", "a").state(at=height),
            lambda: node.fork_world("grandchild", "late", at=height),
        ):
            with pytest.raises(Gone, match="which was deleted"):
                await call()
        assert await status(grandchild, pay, "a") == "resting"
        assert (await oldest.head()).height < height


@in_virtual_time
async def test_a_deleted_fork_leaves_nothing_but_the_word_that_it_is_gone(opened, pay):
    """Its effects and timers neither: their rows stand by their own ids, and the names go last."""
    async with opened() as node:
        world = await node.world("w")
        child = await node.fork_world("w", "child", live=True)
        await child.send(pay.Placed("hold", 1))
        await child.send(pay.Placed("nap", 1, "timer"))
        await child.send(pay.Placed("big", 5_000))
        await node.bank.until(1)
        assert len(await rows_of(opened, child.id)) > 5
        await node.delete_world("child")
        left = await rows_of(opened, child.id)
        assert left == [keys.world_gone(world.info.universe, child.id)]


async def rows_of(opened, world):
    """The keys of all rows that name a world, or lead to it."""
    found = []
    async for page in MemoryEngine(opened.disk).rows():
        found += [key for key, value in page if world.bytes in key or world.bytes in value]
    return found


@in_virtual_time
async def test_a_fork_is_one_name_and_refuses_what_makes_no_sense(opened, pay):
    async with opened() as node:
        await node.world("w")
        await node.fork_world("w", "try")
        with pytest.raises(Rejected, match="there is a world try"):
            await node.fork_world("w", "try")
        with pytest.raises(Rejected, match="the effects of a fork are drop, keep, recorded, scripted"):
            ForkOptions("burn")
        with pytest.raises(Rejected, match="a script is given exactly if"):
            ForkOptions("scripted")
        for script, why in (
            ([{"kind": "pay.nothing"}], "answer 0 of the script: kind is an effect"),
            ([{"kind": "pay.charge"}], "value stands there"),
            ([{"kind": "pay.charge", "status": "odd"}], "status is one of"),
            ([{"kind": "pay.charge", "status": "failed", "key": "a"}], "key needs `module`"),
            ([5], "it is a map"),
        ):
            with pytest.raises(Rejected, match=why):
                await node.fork_world("w", "odd", effects="scripted", script=script)


@in_virtual_time
async def test_a_fork_by_nobody_is_refused(node):
    """Its first record held what is no text, and it could not be read again."""
    await node.world("w")
    for wrong in ({"who": None}, {"who": 5}, {"who": ""}, {"why": None}, {"who": "a" * 100_000}):
        with pytest.raises(Rejected):
            await node.fork_world("w", "try", **wrong)
    assert [info.name for info in await node.worlds()] == ["w"]
