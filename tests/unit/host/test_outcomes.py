"""What senders are told when commits fail, worlds are taken, or something inside breaks."""

from __future__ import annotations

import asyncio

import pytest

from cellule.errors import Fenced, InvariantBroken, OutcomeUnknown, Parked, Unavailable
from cellule.kernel.world import World
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Fate, Fault, FaultPlan, FaultyEngine
from tests.support.nodes import events_of
from tests.support.virtual_tests import in_virtual_time

UNAVAILABLE = Fault(Fate.UNAVAILABLE)
MILLISECOND = 1_000_000


class Switched:
    """Faults that are switched on and off by hand."""

    def __init__(self):
        self.on = None

    def fault(self, operation, number, entropy):
        return self.on if self.on is not None and operation == "commit" else Fault()

    def late_ns(self, entropy):
        return 0


async def ready_world(node):
    """A world that has nothing left to do."""
    world = await node.world("w")
    hosted = await node.node.hosted(world.info)
    await world.snapshot()
    return world, hosted


@pytest.mark.parametrize(
    "fate", [Fate.UNAVAILABLE, Fate.UNKNOWN_APPLIED, Fate.UNKNOWN_LOST, Fate.UNKNOWN_LATE, Fate.ANSWERED]
)
@in_virtual_time
async def test_a_commit_that_fails_once_is_settled_and_applied_once(opened, tally, fate):
    faults = Switched()
    async with opened(FaultyEngine(MemoryEngine(opened.disk), faults)) as node:
        world, _ = await ready_world(node)
        faults.on = Fault(fate, late_ns=50 * MILLISECOND)
        sending = asyncio.create_task(world.send(tally.Add("a", 1), id="one"))
        await asyncio.sleep(0.005)
        faults.on = None
        assert not (await sending).duplicate
        assert await world.cell(tally.account, "a").state() == tally.Account(1, 1)
        assert [each.id for each in await events_of(node.node.engine, world.info)][1:] == ["one"]


@in_virtual_time
async def test_a_block_another_writer_put_first_makes_the_commit_ask_again(opened, tally):
    """The rows of blocks travel in the frame's batch and expect to be absent; here one no longer is."""
    faults = Switched()
    async with opened(FaultyEngine(MemoryEngine(opened.disk), faults)) as node:
        world, hosted = await ready_world(node)
        faults.on = Fault(before_ns=100 * MILLISECOND)
        sent = await world.send_nowait(tally.Keep("b", "x" * 5_000))  # a state too long to stand in a record
        await asyncio.sleep(0.01)
        faults.on = None
        cas = node.node.cas(world.info.universe)
        [finished] = hosted._flying
        await cas.put_many(list(finished.blocks.values()), trusted=True)
        await sent.wait()
        assert (await world.cell(tally.shelf, "b").state()).text == "x" * 5_000


def test_a_world_that_was_taken_tells_submitted_from_never_submitted(on_node, tally):
    async def main(opened):
        faults = Switched()
        engine = FaultyEngine(MemoryEngine(opened.disk), faults)
        async with opened(engine) as node:
            world, hosted = await ready_world(node)
            faults.on = Fault(before_ns=100 * MILLISECOND)  # the commit is under way while more arrives
            submitted = await world.send_nowait(tally.Add("a", 1), id="submitted")
            await asyncio.sleep(0.01)
            behind = await world.send_nowait(tally.Add("a", 1), id="behind")
            await asyncio.sleep(0.01)
            waiting = await world.send_nowait(tally.Add("a", 1), id="waiting")
            cell = world.cell(tally.account, "a")
            reading = asyncio.create_task(hosted.look(cell.module, cell.key))
            await asyncio.sleep(0.01)
            await MemoryEngine(opened.disk).commit(
                Batch(set={keys.world_epoch(world.info.universe, world.id): b"another"})
            )
            with pytest.raises(OutcomeUnknown) as unknown:
                await submitted.wait("durable")
            for sent in (behind, waiting):
                with pytest.raises(Unavailable) as caught:
                    await sent.wait()
                assert not isinstance(caught.value, OutcomeUnknown)
                assert caught.value.code == "host.not_accepted"
            assert unknown.value.code == "host.outcome_unknown"
            assert "same id" in str(unknown.value)
            with pytest.raises(Fenced):
                await reading
            assert isinstance(hosted.ended, Fenced)

    with pytest.raises(Done):
        on_node(without_proof(main))


def without_proof(main):
    async def play(opened):
        await main(opened)
        raise Done

    return play


class Done(Exception):
    """The store was broken on purpose: nothing to prove in it."""


@in_virtual_time
async def test_an_interrupted_event_that_is_durable_says_that_it_is_kept(node, tally):
    world, _ = await ready_world(node)
    await world.control("pause", who="me", why="test")
    with pytest.raises(Parked, match="the world is paused"):
        await world.send(tally.Add("a", 1), id="kept")
    with pytest.raises(Parked, match="the world is paused"):
        await world.wait_applied("kept")
    await world.control("resume", who="me", why="test")
    assert (await world.wait_applied("kept")).steps[0].version == 1


@in_virtual_time
async def test_a_defect_in_everything_stops_this_world_only_and_it_can_be_opened_again(
    opened, tally, monkeypatch
):
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    async with opened() as node:
        world, hosted = await ready_world(node)
        other = await node.world("other")
        sound, broken = World.beat, [world.id]

        def beat(self, *given, **more):
            return 1 / (self.world_id not in broken) and sound(self, *given, **more)

        monkeypatch.setattr(World, "beat", beat)
        with pytest.raises(Unavailable, match="division by zero"):
            await world.send(tally.Add("a", 1), id="one")
        assert isinstance(hosted.ended, InvariantBroken)
        assert [report["exception"] for report in reports] == [hosted.ended]
        await other.send(tally.Add("a", 1))
        broken.clear()
        await world.send(tally.Add("a", 1), id="one")
        assert await world.cell(tally.account, "a").state() == tally.Account(1, 1)


@in_virtual_time
async def test_a_failing_disk_is_told_and_the_world_works_again_when_it_does(opened, tally):
    faults = Switched()
    engine = FaultyEngine(MemoryEngine(opened.disk), faults)
    async with opened(engine, stall_s=1.0) as node:
        world, hosted = await ready_world(node)
        faults.on = UNAVAILABLE
        under_way = await world.send_nowait(tally.Add("a", 1), id="under way")
        await asyncio.sleep(0.05)
        reading = asyncio.create_task(world.cell(tally.account, "a").state())
        with pytest.raises(OutcomeUnknown, match="did not get through"):
            await under_way.wait()
        with pytest.raises(Unavailable):
            await reading
        with pytest.raises(Unavailable) as refused:
            await world.send(tally.Add("a", 1), id="refused")
        assert refused.value.code == "host.not_accepted"
        faults.on = None
        await asyncio.sleep(5)  # virtual
        assert (await world.send(tally.Add("a", 1), id="under way")).duplicate
        assert not (await world.send(tally.Add("a", 1), id="refused")).duplicate
        assert hosted.ended is None
        assert await world.cell(tally.account, "a").state() == tally.Account(2, 2)


@in_virtual_time
async def test_a_node_whose_disk_fails_for_good_still_closes(opened, tally):
    faults = Switched()
    engine = FaultyEngine(MemoryEngine(opened.disk), faults)
    async with opened(engine, stall_s=1.0) as node:
        world, _ = await ready_world(node)
        faults.on = UNAVAILABLE
        sent = await world.send_nowait(tally.Add("a", 1))
    with pytest.raises(OutcomeUnknown):
        await sent.wait()


@in_virtual_time
async def test_reads_are_released_only_when_what_they_saw_is_durable(opened, tally):
    faults = Switched()
    engine = FaultyEngine(MemoryEngine(opened.disk), faults)
    async with opened(engine) as node:
        world, _ = await ready_world(node)
        faults.on = Fault(before_ns=500 * MILLISECOND)
        sent = await world.send_nowait(tally.Add("a", 1))
        await asyncio.sleep(0.01)
        state = await world.cell(tally.account, "a").state()
        assert sent.durable
        assert state == tally.Account(1, 1)


@in_virtual_time
async def test_a_duplicate_is_not_acknowledged_before_the_first_is_durable(opened, tally):
    """An all-duplicate beat writes no frame; it was once acknowledged at once."""
    faults = Switched()
    engine = FaultyEngine(MemoryEngine(opened.disk), faults)
    async with opened(engine) as node:
        world, _ = await ready_world(node)
        faults.on = Fault(before_ns=500 * MILLISECOND)
        first = await world.send_nowait(tally.Add("a", 1), id="one")
        await asyncio.sleep(0.01)
        again = await world.send_nowait(tally.Add("a", 1), id="one")
        await again.wait("durable")
        assert first.durable
        assert again.duplicate


@in_virtual_time
async def test_what_the_block_raises_comes_out_as_it_is(opened, tally):
    sents = []

    async def fails():
        async with opened() as node:
            world = await node.world("w")
            sents.append(await world.send_nowait(tally.Add("a", 1)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert sents[0].finished
    assert sents[0].durable


@in_virtual_time
async def test_closing_finishes_what_was_accepted_and_refuses_what_comes_later(opened, tally):
    async with opened() as node:
        world = await node.world("w")
        sents = [await world.send_nowait(tally.Add("a", 1)) for _ in range(5_000)]
    for sent in sents:
        await sent.wait()
    with pytest.raises(Unavailable) as caught:
        await world.send(tally.Add("a", 1))
    assert caught.value.code == "host.node_closed"
    async with opened() as node:
        world = await node.world("w")
        assert await world.cell(tally.account, "a").state() == tally.Account(5_000, 5_000)


@in_virtual_time
async def test_plans_that_fail_the_nth_commit_change_nothing_that_was_acknowledged(opened, tally):
    acknowledged = 0
    for number in range(1, 12):
        fault = Fault(Fate.UNKNOWN_APPLIED if number % 2 else Fate.UNKNOWN_LOST)
        engine = FaultyEngine(MemoryEngine(opened.disk), FaultPlan(commit={number: fault}))
        async with opened(engine) as node:
            world = await node.world("w")
            await world.send(tally.Add("a", 1), id=f"n{number}")
            acknowledged += 1
            assert (await world.cell(tally.account, "a").state()).count == acknowledged
