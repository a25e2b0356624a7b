"""Whatever enters a frame or travels with it obeys the limits of a commit: nobody stops for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule import Rejected
from cellule.host.outbox.signatures import NodeKey
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

BULKY = load_app(Path(__file__).parents[2] / "node_apps" / "bulky.py")
KEY = NodeKey(b"k" * 32)


@in_virtual_time
async def test_cells_whose_long_replies_fill_frames_all_answer(opened):
    """A reply counted for nothing in its frame: 40 cells at once, and those that stepped last were halted."""
    async with opened(app=BULKY.app) as node:
        world = await node.world("w")
        await world.control("pause", who="ada", why="let them gather")
        for number in range(40):
            await world.send(BULKY.Ask(f"c{number}", 400_000), wait="durable")
        await world.control("resume", who="ada", why="all at once")
        await world.wait_idle(timeout=60)
        states = [await world.cell(BULKY.tells, f"c{number}").state() for number in range(40)]
        assert states == [BULKY.Done(1)] * 40


@in_virtual_time
async def test_cells_whose_notes_fill_frames_all_step(opened):
    async with opened(app=BULKY.app) as node:
        world = await node.world("w")
        await world.control("pause", who="ada", why="let them gather")
        await world.send_many([BULKY.Note(f"c{number}", 3_500) for number in range(2_000)], wait="durable")
        await world.control("resume", who="ada", why="all at once")
        await world.wait_idle(timeout=60)
        assert len((await world.cells(BULKY.notes, limit=1_000, where="state.count == 1")).cells) == 1_000
        assert await world.cell(BULKY.notes, "c1999").state() == BULKY.Done(1)


@in_virtual_time
async def test_a_grant_that_is_longer_than_a_row_reaches_its_adapter(opened):
    """The row of an effect had the whole grant: with 6,000 hosts no commit took it, and its world ended."""
    async with opened(app=BULKY.app, key=KEY, adapters=[BULKY.read]) as node:
        world = await node.world("w")
        await world.send(BULKY.Fetch("a", 2))
        await world.wait_idle(timeout=60)
        assert await world.cell(BULKY.fetches, "a").state() == BULKY.Done(len(BULKY.HOSTS))


@in_virtual_time
async def test_effects_of_many_cells_go_on_in_the_next_beats(opened):
    """12 cells asked for 800 effects each: their rows were 12 MB in one commit, which no store took."""
    async with opened(app=BULKY.app, key=KEY) as node:
        world = await node.world("w")
        asked = [world.send(BULKY.Crawl(f"c{number}", 800)) for number in range(12)]
        await asyncio.gather(*asked)
        beats = [frame.header.beat async for frame in world.frames()]
        assert len(await world.effects(limit=1_000)) == 1_000
        assert len(beats) > 4


@in_virtual_time
async def test_cells_that_wait_for_too_much_are_not_erased_together(opened):
    """They made one frame of 9 MB; the control was set aside as a defect."""
    async with opened(app=BULKY.app) as node:
        world = await node.world("w")
        for number in range(30):
            await world.send(BULKY.Wait(f"c{number}", 100))
        ada, keys = world.operator("ada"), [f"c{number}" for number in range(30)]
        with pytest.raises(Rejected) as caught:
            await ada.erase(BULKY.waits, *keys, why="asked for")
        assert (caught.value.code, caught.value.fields["count"]) == ("kernel.erase_size", 3_000)
        assert (await world.cell(BULKY.waits, "c0").state()).count == 100
        for begin in range(0, 30, 15):
            await ada.erase(BULKY.waits, *keys[begin : begin + 15], why="asked for")
        assert await world.cell(BULKY.waits, "c29").state() is None


@in_virtual_time
async def test_enzymes_that_fail_for_many_signals_fill_no_frame(opened):
    """The errors of 4,500 runs in a script of three bytes a letter, made a frame of 7 MB, at every beat."""
    async with opened(app=BULKY.app) as node:
        world = await node.world("w")
        await world.heartbeat.pause()
        for begin in range(0, 4_500, 500):
            some = (world.heartbeat.signal(f"/bad/{number}") for number in range(begin, begin + 500))
            await asyncio.gather(*some)
        await world.heartbeat.resume()
        await world.wait_idle(timeout=600)
        assert await world.heartbeat.agenda() == []
        views = await world.heartbeat.beats(limit=100)
        assert sum(len(view.agenda) for view in views) >= 4_500


@in_virtual_time
async def test_a_verb_that_the_inbox_cannot_take_is_refused_in_our_words(opened):
    async with opened(app=BULKY.app) as node, opened(app=BULKY.app, owner=False) as guest:
        mine, theirs = await node.world("w"), await guest.world("w")
        await mine.heartbeat.write("/a", "x" * 95_000)
        with pytest.raises(Rejected) as caught:
            await theirs.heartbeat.write("/a", "y" * 95_000)
        assert caught.value.code == "host.control_size"
        await theirs.heartbeat.write("/a", "y" * 80_000)
        assert await mine.heartbeat.read("/a") == "y" * 80_000
