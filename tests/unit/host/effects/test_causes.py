"""The why-graph through effects, and correlation ids."""

from __future__ import annotations

from cellule.host.read.causes import beside, causes_of, effects_of
from cellule.host.read.correlation import Correlations
from cellule.host.read.record_view import RecordRenderer


async def kinds_of(world, height):
    chain = await causes_of(RecordRenderer(world.follower), height)
    return [each.kind for each in chain]


async def test_the_chain_of_a_receipt_goes_through_its_intent(opened, pay):
    async with opened() as here:
        view = await here.place("o1")
        await here.stepped("o1", "pay.charge ok")
        [newest, _] = await here.world.cell(pay.order, "o1").history()
        assert await kinds_of(here.world, newest.height) == ["step", "receipt", "intent", "step", "event"]
        assert await kinds_of(here.world, view.height) == ["intent", "step", "event"]


async def test_what_follows_ends_with_the_receipt_and_its_step(opened, pay):
    async with opened() as here:
        applied = await here.world.send(pay.Placed("o1", 5))
        await here.stepped("o1", "pay.charge ok")
        teller = RecordRenderer(here.world.follower)
        found = await effects_of(here.world.follower, teller, applied.height)
        assert [each.kind for each in found.records] == ["step", "intent", "decision", "receipt", "step"]
        assert found.complete
        parked = await here.place("big", 5_000)
        left = await effects_of(here.world.follower, teller, parked.height)
        assert [each.kind for each in left.records] == ["decision"]
        assert not left.complete


async def test_a_retried_effect_begins_with_the_person_who_asked(opened):
    async with opened() as here:
        await here.settled(await here.place("tired1"))
        done = await here.world.retry((await here.world.dead_letters())[0].height, who="a", why="b")
        [again] = await here.world.effects(cause=done.height)
        assert await kinds_of(here.world, again.height) == ["intent", "control"]


async def test_beside_an_approved_effect_stand_both_decisions_and_the_approval(opened):
    async with opened() as here:
        view = await here.place("big", 5_000)
        await here.world.approve(view.id, who="ann", why="fine")
        settled = await here.settled(view)
        teller = RecordRenderer(here.world.follower)
        chain = await causes_of(teller, settled.receipt.height)
        also = await beside(teller, here.world.follower, chain)
        [intent] = also
        assert intent == view.height
        assert [each.kind for each in also[intent]] == ["decision", "control", "decision"]
        assert [each.fields["verdict"] for each in also[intent] if each.kind == "decision"] == [
            "park",
            "allow",
        ]


async def test_a_schedule_is_told_by_name_and_begins_a_chain(opened):
    async with opened() as here:
        teller = RecordRenderer(here.world.follower)
        await here.world.pause_schedule("nightly", who="ann", why="x")
        timers = [
            told.fields
            async for frame in here.world.frames()
            for told in await teller.frame(frame)
            if told.kind == "timer"
        ]
        assert [(each["schedule"], each["state"]) for each in timers] == [
            ("nightly", "armed"), ("often", "armed"), ("nightly", "paused"),
        ]  # fmt: skip
        assert all("key" not in each for each in timers)


async def test_what_an_event_caused_has_its_correlation_id_and_nothing_else_does(opened, pay):
    async with opened() as here:
        world = here.world
        mine = await world.send(pay.Placed("o1", 5), correlation="mine")
        await world.send(pay.Placed("o2", 5), correlation="other")
        await world.send(pay.Placed("o3", 5))
        for order in ("o1", "o2", "o3"):
            await here.stepped(order, "pay.charge ok")
        story = Correlations(world.follower.journal, "mine")
        found = [height async for frame in world.frames() for height in sorted(await story.within(frame))]
        follow = await effects_of(world.follower, RecordRenderer(world.follower), mine.height)
        assert found == sorted([mine.height, *(each.height for each in follow.records)])
        fresh = Correlations(world.follower.journal, "mine")
        assert await fresh.has(found[-1])
        assert not await fresh.has(1)


async def test_forgotten_stories_are_looked_up_again(opened, pay, monkeypatch):
    monkeypatch.setattr("cellule.host.read.correlation.REMEMBERED_MAX", 1)
    async with opened() as here:
        await here.world.send(pay.Placed("o1", 5), correlation="mine")
        await here.stepped("o1", "pay.charge ok")
        story = Correlations(here.world.follower.journal, "mine")
        found = [each async for frame in here.world.frames() for each in await story.within(frame)]
        assert len(found) == 6
