"""Schedules of an open world."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cellule.errors import Rejected


async def test_schedules_are_listed_with_their_next_time(opened):
    async with opened() as here:
        nightly, often = await here.world.schedules()
        assert (nightly.name, nightly.cron, nightly.zone) == ("nightly", "30 2 * * *", "Europe/Berlin")
        assert (nightly.event, nightly.value, nightly.paused) == ("pay/Audited@1", {"note": "night"}, False)
        assert (often.every_ns, often.cron) == (6 * 3600 * 10**9, None)
        now_ns = here.node.node.clock.now_ns()
        assert now_ns < nightly.next_ns
        assert now_ns < often.next_ns <= now_ns + often.every_ns


async def test_a_preview_knows_when_clocks_change(opened):
    async with opened() as here:
        start = datetime(2026, 3, 27, 12, tzinfo=UTC)
        times = await here.world.preview_schedule("nightly", 3, after=start)
        assert [each.local for each in times] == [
            "2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00",
        ]  # fmt: skip
        [first] = await here.world.preview_schedule("nightly", 1)
        assert first.due_ns == (await here.world.schedules())[0].next_ns


async def test_a_paused_schedule_is_due_at_no_time_until_it_is_resumed(opened):
    async with opened() as here, opened(own=False) as there:
        await there.world.pause_schedule("nightly", who="ann", why="holidays")
        paused = (await here.world.schedules())[0]
        assert (paused.paused, paused.next_ns) == (True, None)
        assert (await there.world.schedules())[0] == paused
        with pytest.raises(Rejected) as refused:
            await here.world.pause_schedule("nightly", who="ann", why="again")
        assert refused.value.code == "kernel.schedule_state"
        await here.world.resume_schedule("nightly", who="ann", why="back")
        assert (await here.world.schedules())[0].next_ns is not None


async def test_an_unknown_schedule_is_refused_with_those_like_it(opened):
    async with opened() as here:
        world = here.world
        for work in (
            world.preview_schedule("nihgtly"),
            world.pause_schedule("nihgtly", who="ann", why="x"),
            world.resume_schedule("nihgtly", who="ann", why="x"),
        ):
            with pytest.raises(Rejected) as refused:
                await work
            assert refused.value.code == "host.no_schedule"
            assert refused.value.hint == "Did you mean nightly?"
        with pytest.raises(Rejected) as refused:
            await world.preview_schedule("nightly", 0)
        assert refused.value.code == "host.preview_count"
        with pytest.raises(Rejected) as refused:
            await world.preview_schedule("nightly", after=datetime(2026, 1, 1))  # noqa: DTZ001 - naive on purpose
        assert refused.value.code == "host.naive_time"


async def test_a_schedule_is_triggered_and_made_up_for(opened, pay):
    async with opened() as here, opened(own=False) as there:
        await there.world.operator("ann").trigger_schedule("nightly", why="the report is missing")
        await here.world.wait_idle()
        assert (await here.world.cell(pay.audits).state()).count == 1
        first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 4, tzinfo=UTC)
        [done] = await here.world.operator("ann").backfill_schedule("nightly", first, last, why="outage")
        await here.world.wait_idle()
        assert (await here.world.cell(pay.audits).state()).count == 4
        control = (await here.world.reader.frame(done.height)).at(done.height)
        assert (control.who, control.why, control.arguments["sent"]) == ("ann", "outage", 3)
        with pytest.raises(Rejected) as refused:
            await here.world.operator("ann").trigger_schedule("nihgtly", why="x")
        assert refused.value.code == "kernel.schedule_unknown"
