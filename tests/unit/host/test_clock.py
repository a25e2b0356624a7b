"""A clock that jumps: what a world believes, what it says, and how a person accepts it."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from cellule.host.limits import CLOCK_AHEAD_S, CLOCK_JUMP_MAX_S
from cellule.host.run.beat_clock import BeatClock, drift_text
from cellule.kernel.journal.records import ControlRecord
from cellule.testing import ManualClock, VirtualClock
from tests.support.virtual_tests import in_virtual_time

SECOND = 1_000_000_000
BOUND = CLOCK_JUMP_MAX_S * SECOND
TEN_YEARS = 3_652 * 86_400 * SECOND


async def times(world):
    return [frame.header.now_ns async for frame in world.frames()]


@in_virtual_time
async def test_one_beat_under_a_clock_ten_years_ahead_moves_no_timer(opened, tally, caplog):
    """Every later timer was armed for ten years on, and nothing was said."""
    clock = VirtualClock()
    async with opened(clock=clock) as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        before = (await times(world))[-1]
        clock.jump(TEN_YEARS)
        with caplog.at_level(logging.WARNING, "cellule.host"):
            await world.send(tally.Add("a", 1))
            await world.send(tally.Poke("p"))
        assert (await times(world))[-1] - before < 10 * SECOND
        [said] = [record.getMessage() for record in caplog.records]
        assert "3652 days" in said
        assert "accept-clock" in said
        clock.jump(-TEN_YEARS)
        await asyncio.sleep(40)
        assert await world.cell(tally.brief, "p").state() is None  # 30 seconds are 30 seconds


@in_virtual_time
async def test_while_a_clock_is_not_believed_time_passes_all_the_same(opened, tally):
    clock = VirtualClock()
    async with opened(clock=clock, idle_s=2) as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        clock.jump(TEN_YEARS)
        await world.send(tally.Poke("p"))
        await asyncio.sleep(40)
        assert await world.cell(tally.brief, "p").state() is None


@pytest.mark.parametrize("place", ["owner", "guest"])
@in_virtual_time
async def test_an_accepted_clock_is_believed_from_the_frame_that_says_so(opened, tally, place):
    clock = VirtualClock()
    async with opened(clock=clock) as node, opened(clock=clock, owner=False) as other:
        owner = await node.world("w")
        await owner.send(tally.Add("a", 1))
        clock.jump(TEN_YEARS)
        await owner.send(tally.Add("a", 1))
        world = owner if place == "owner" else await other.world("w")
        done = await world.control("clock.accept", who="ada", why="it was in a box")
        found = {frame.header.last: frame async for frame in owner.frames()}
        [frame] = [
            frame for frame in found.values() if frame.header.first <= done.height <= frame.header.last
        ]
        assert frame.expect(done.height, ControlRecord).verb == "clock.accept"
        assert abs(frame.header.now_ns - clock.now_ns()) < 60 * SECOND
        await owner.send(tally.Add("a", 1))
        assert abs((await times(owner))[-1] - clock.now_ns()) < 60 * SECOND


@in_virtual_time
async def test_a_clock_that_jumped_while_nothing_ran_is_not_believed_either(opened, tally, caplog):
    clock = VirtualClock()
    async with opened(clock=clock) as node:
        await (await node.world("w")).send(tally.Poke("p"))
    clock.jump(TEN_YEARS)
    async with opened(clock=clock) as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        assert await world.cell(tally.brief, "p").state() is not None
        assert "not believed" in caplog.text
        await world.control("clock.accept", who="ada", why="it is right")
        assert await world.cell(tally.brief, "p").state() is None


@in_virtual_time
async def test_a_world_that_is_ahead_says_so_when_it_is_opened(opened, tally, caplog):
    clock = VirtualClock()
    clock.jump(TEN_YEARS)
    async with opened(clock=clock) as node:
        await (await node.world("w")).send(tally.Add("a", 1))
    clock.jump(-TEN_YEARS)
    async with opened(clock=clock) as node:
        await (await node.world("w")).send(tally.Add("a", 1), id="one")
        await (await node.world("w")).send(tally.Add("a", 1))
    assert "ahead of this machine's clock" in caplog.text


def test_the_bound_is_exact_and_a_world_at_work_only_counts_the_jump():
    clock = ManualClock()
    time = BeatClock(clock, "w", clock.now_ns())
    clock.jump(BOUND)
    assert (time.now_ns(), time.is_held) == (clock.now_ns(), False)
    clock.advance(3 * BOUND)  # three years without a beat, and no jump
    assert (time.now_ns(), time.is_held) == (clock.now_ns(), False)
    before = clock.now_ns()
    clock.jump(BOUND + 1)
    clock.advance(5)
    assert (time.now_ns(), time.is_held) == (before + 5, True)
    assert (time.accept(), time.is_held) == (clock.now_ns(), False)


def test_what_is_said_begins_at_the_bounds():
    assert drift_text(1_000 * SECOND, 1_000 * SECOND) is None
    assert drift_text(CLOCK_AHEAD_S * SECOND, 0) is None
    assert "ahead of this machine's clock" in (drift_text(CLOCK_AHEAD_S * SECOND + 1, 0) or "")
    assert drift_text(0, BOUND) is None
    assert str(timedelta(seconds=CLOCK_JUMP_MAX_S)) in (drift_text(0, BOUND + 1) or "")
