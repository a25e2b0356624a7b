"""A step that refuses: an outcome that is recorded and told, and the cell goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule import CelluleError, Refused, StepFailed
from cellule.host.read.causes import causes_of, effects_of
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.journal.codes import REFUSED
from cellule.testing import World
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

TILL = load_app(Path(__file__).parents[2] / "node_apps" / "till.py")


@in_virtual_time
async def test_a_refusal_changes_nothing_is_told_with_reason_and_code_and_the_cell_goes_on(opened):
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        await world.send(TILL.Put("a", 5))
        with pytest.raises(Refused, match="till/till/a refused the event: only 5 left") as caught:
            await world.send(TILL.Take("a", 9))
        error = caught.value
        assert (error.reason, error.code, error.cell) == ("only 5 left", "till.short", "till/till/a")
        view = await world.cell(TILL.till, "a").view()
        assert (view.state, view.version, view.status) == (TILL.Till(5), 1, "waiting")
        await world.send(TILL.Take("a", 2))
        assert await world.cell(TILL.till, "a").state() == TILL.Till(3)


@in_virtual_time
async def test_a_refusal_that_is_raised_is_the_same_and_anything_else_stays_a_failure(opened):
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        with pytest.raises(Refused) as caught:
            await world.send(TILL.Raise("a"))
        assert (caught.value.reason, caught.value.code) == ("not now", "till.closed")
        with pytest.raises(Refused) as caught:  # it was a TypeError, which halted the cell
            await world.send(TILL.RaiseRefuse("a"))
        assert (caught.value.reason, caught.value.code) == ("not today", "till.day")
        assert await world.cell(TILL.till, "a").view() is None
        with pytest.raises(StepFailed, match=r"nobody meant this .*fix the code and resume"):
            await world.send(TILL.Break("a"))
        assert (await world.cell(TILL.till, "a").view()).status == "halted"


@in_virtual_time
async def test_a_world_in_a_test_raises_the_words_of_a_node(opened):
    """It had words of its own, so a test could match what no sender ever reads."""
    alike = World(TILL.app)
    wrong = [
        (TILL.Take("a", 9), {}), (TILL.Put("b", 1), {"expected_version": 7}),
        (TILL.Break("a"), {}), (TILL.Put("a", 1), {}),
    ]  # fmt: skip
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        for event, options in wrong:
            with pytest.raises(CelluleError) as here:
                await world.send(event, **options)
            with pytest.raises(type(here.value)) as there:
                alike.send(event, **options)
            assert (there.value.code, str(there.value)) == (here.value.code, str(here.value))


@in_virtual_time
async def test_the_same_id_gets_the_same_refusal_again_also_after_a_restart(opened):
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        with pytest.raises(Refused) as first:
            await world.send(TILL.Take("a", 9), id="one")
        await world.send(TILL.Put("a", 50))
        with pytest.raises(Refused) as again:
            await world.send(TILL.Take("a", 9), id="one")
        assert again.value.height == first.value.height
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        with pytest.raises(Refused, match="only 0 left"):
            await world.send(TILL.Take("a", 9), id="one")
        with pytest.raises(Refused, match="only 0 left"):
            await world.wait_applied("one")
        assert await world.cell(TILL.till, "a").state() == TILL.Till(50)


@in_virtual_time
async def test_every_way_to_send_tells_a_refusal(opened):
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        sent = await world.send_nowait(TILL.Take("a", 1))
        with pytest.raises(Refused):
            await sent.wait()
        many = await world.send_many([TILL.Put("a", 3), TILL.Take("a", 1), TILL.Take("a", 9)])
        await many[0].wait()
        await many[1].wait()
        with pytest.raises(Refused, match="only 2 left"):
            await many[2].wait()
        with pytest.raises(Refused):
            await world.send(TILL.Take("a", 9), wait="reply")
        await world.send(TILL.Take("a", 9), wait="durable", id="kept")
        with pytest.raises(Refused):
            await world.wait_applied("kept")


@in_virtual_time
async def test_a_refused_event_that_a_cell_emitted_stands_in_history_and_why(opened):
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        await world.send(TILL.Put("b", 1))
        applied = await world.send(TILL.Move("a", "b", 9))
        await world.snapshot()
        refused, put = await world.cell(TILL.till, "b").history()
        assert (refused.status, refused.error, refused.code) == ("refused", "only 1 left", "till.short")
        assert (put.status, put.version, refused.version) == ("ok", 1, 1)
        renderer = RecordRenderer(world.follower)
        chain = await causes_of(renderer, refused.height)
        assert [each.kind for each in chain] == ["step", "emitted", "step", "event"]
        assert chain[0].fields["error"] == {"code": "till.short", "text": "only 1 left"}
        led = await effects_of(world.follower, renderer, applied.height)
        assert led.complete
        assert led.records[-1].fields["status"] == "refused"


@in_virtual_time
async def test_a_refused_timer_is_recorded_and_nothing_stays_open(opened):
    async with opened(app=TILL.app) as node:
        world = await node.world("w")
        await world.send(TILL.Wait("a"))
        async for frame in world.tail(0):
            statuses = [each.status for each in frame.records if type(each).__name__ == "StepRecord"]
            if statuses == [REFUSED]:
                break
        view = await world.cell(TILL.till, "a").view()
        assert (view.version, view.status, await world.effects()) == (1, "waiting", [])
        assert [each.error for each in await world.cell(TILL.till, "a").history()] == ["too late", ""]
