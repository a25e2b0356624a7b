"""What a world tells about its effects."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected, TimedOut, Unavailable
from cellule.host.read import journal_reader
from cellule.values.cid import cid_of


async def test_open_effects_are_listed_with_what_each_waits_for(opened):
    async with opened() as here:
        views = [
            await here.place("big", 5_000), await here.place("later1"), await here.place("m", how="mail"),
            await here.place("t", how="timer"),
        ]  # fmt: skip
        await here.tried(views[1], 1)
        found = await here.world.effects()
        assert [each.height for each in found] == [each.height for each in views]
        assert [each.status for each in found] == ["parked", "open", "open", "timer"]
        parked, retrying, alone, timer = found
        assert parked.reason.startswith("approval since 20")
        assert parked.reason.endswith("by rule large sums: more than 10 EUR")
        assert (parked.rule, parked.idempotency_key, parked.attempts) == ("large sums", "big", None)
        assert retrying.reason.startswith("retrying at 20")
        assert "after attempt 1 of 3 failed: Bearer <secret bank> is busy" in retrying.reason
        assert (retrying.attempts.state, retrying.attempts.tried, retrying.attempts.most) == (
            "retrying",
            1,
            3,
        )
        assert retrying.attempts.next_ns > retrying.since_ns
        assert alone.reason == "no adapter for pay.mail on this node"
        assert timer.reason.startswith("timer at 20")
        assert timer.due_ns - timer.since_ns == 3 * 86_400 * 10**9


async def test_listing_filters_by_status_and_kind_and_goes_on_behind_a_height(opened):
    async with opened() as here:
        mails = [await here.place(f"m{number}", how="mail") for number in range(4)]
        timer = await here.place("t", how="timer")
        world = here.world
        assert [each.height for each in await world.effects(status="timer")] == [timer.height]
        assert await world.effects(status="parked") == []
        assert await world.effects(kind="pay.charge") == []
        first = await world.effects(kind="pay.mail", limit=3)
        rest = await world.effects(kind="pay.mail", limit=3, after=first[-1].height)
        assert [each.height for each in first + rest] == [each.height for each in mails]
        assert await world.effects(after=timer.height) == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"status": "done"}, "host.effect_status"),
        ({"limit": 0}, "host.page_limit"),
        ({"limit": 1_001}, "host.page_limit"),
        ({"after": -1}, "host.effect_after"),
        ({"cause": 10**6}, "host.height"),
    ],
)
async def test_a_listing_that_cannot_be_is_refused(opened, asked, code):
    async with opened() as here:
        with pytest.raises(Rejected) as refused:
            await here.world.effects(**asked)
        assert refused.value.code == code


async def test_one_effect_is_found_by_height_id_and_bytes_open_or_settled(opened, pay):
    async with opened() as here:
        charged = await here.settled(await here.place("o1"))
        parked = await here.place("big", 5_000)
        assert charged.view.status == "ok"
        assert charged.params == {"cents": 5, "order": "o1", "token": "Bearer ${secret:bank}"}
        assert [each.verdict for each in charged.decisions] == ["allow"]
        assert charged.receipt.value["value"] == {"id": "ch-o1-1"}
        assert (charged.receipt.attempts, charged.receipt.told, charged.receipt.who) == (1, True, None)
        for name in (charged.view.id, charged.view.height, str(charged.view.height)):
            assert await here.world.effect(name) == charged
        steps = []
        waiting = await here.world.effect(parked.id, progress=lambda *told: steps.append(told))
        assert waiting.receipt is None
        assert waiting.view.status == "parked"
        assert [each.verdict for each in waiting.decisions] == ["park"]


async def test_the_search_for_a_settled_effect_tells_how_far_it_is(opened, monkeypatch):
    monkeypatch.setattr("cellule.host.read.effects.past.SEARCH_WINDOW", 5)
    async with opened() as here:
        first = await here.settled(await here.place("o1"))
        for number in range(5):
            await here.place(f"t{number}", how="timer")
        steps = []
        assert await here.world.effect(first.view.id, progress=lambda *told: steps.append(told)) == first
        assert steps
        assert all(done <= total for done, total in steps)
        monkeypatch.setattr("cellule.host.read.effects.past.SEARCH_RECORDS_MAX", 5)
        with pytest.raises(Rejected) as refused:
            await here.world.effect(first.view.id)
        assert refused.value.code == "host.no_effect"
        assert "height" in refused.value.hint


async def test_what_is_no_effect_is_refused_by_name(opened):
    async with opened() as here:
        for name, code in (
            ("nonsense", "host.effect_id"),
            (b"short", "host.effect_id"),
            (True, "host.argument"),
            (1, "host.not_an_effect"),
            (10**9, "host.height"),
            (str(cid_of(b"elsewhere")), "host.no_effect"),
        ):
            with pytest.raises(Rejected) as refused:
                await here.world.effect(name)
            assert refused.value.code == code


async def test_effects_of_a_cause_are_those_it_led_to_settled_or_not(opened, pay):
    async with opened() as here:
        applied = await here.world.send(pay.Placed("o1", 5))
        [view] = await here.world.effects(cause=applied.height)
        await here.settled(view)
        [charged] = await here.world.effects(cause=applied.height)
        assert (charged.status, charged.kind, charged.key) == ("ok", "pay.charge", b"o1")
        [by_step] = await here.world.effects(cause=charged.cause)
        assert by_step == charged
        assert await here.world.effects(cause=applied.height, status="parked") == []
        assert await here.world.effects(cause=applied.height, kind="pay.mail") == []


async def test_a_denied_effect_is_settled_with_its_reason(opened):
    async with opened() as here:
        denied = await here.world.effect((await here.place("gift", -5)).height)
        assert denied.view.status == "denied"
        assert denied.receipt.text == "no gifts"
        assert [each.verdict for each in denied.decisions] == ["deny"]


async def test_a_second_effect_with_the_same_key_waits_for_the_first(opened, pay):
    async with opened() as here:
        first = await here.place("later1")
        second = await here.place("later1")
        [found] = await here.world.effects(status="waiting")
        assert found.height == second.height
        assert f"the intent at height {first.height}" in found.reason


async def test_a_cell_tells_what_it_waits_for(opened, pay):
    async with opened() as here:
        await here.place("big", 5_000)
        view = await here.world.cell(pay.order, "big").view()
        assert view.status == "waiting"
        assert view.reason.startswith("pay.charge: approval since")
        charged = await here.settled(await here.place("o1"))
        await here.stepped("o1", "pay.charge ok")
        assert (await here.world.cell(pay.order, "o1").view()).reason == "an event"
        history = await here.world.cell(pay.order, "o1").history()
        assert [each.schema for each in history] == ["effect.pay/charge@1", "pay/Placed@1"]
        assert history[0].cause == charged.receipt.height


async def test_notes_come_while_an_effect_runs_and_end_when_it_is_settled(opened):
    async with opened() as here:
        view = await here.place("hold1")
        notes = here.world.notes(view.id)
        assert await anext(notes) == "charging hold1 with Bearer <secret bank>"
        assert "is running" in (await here.world.effect(view.id)).view.reason
        await here.world.cancel(view.id, who="ann", why="enough")
        assert [note async for note in notes] == []


async def test_another_process_sees_the_same_but_what_only_the_pool_knows(opened):
    async with opened() as here, opened(own=False) as there:
        view = await here.place("later1")
        mail = await here.place("m", how="mail")
        await here.tried(view, 1)
        mine, theirs = await here.world.effects(), await there.world.effects()
        assert mine[0] == theirs[0]
        assert theirs[1].height == mail.height
        assert theirs[1].attempts.state == "waiting"
        assert "the owner of the folder has no adapter for pay.mail" in theirs[1].reason
        with pytest.raises(Unavailable) as refused:
            await anext(there.world.notes(view.id))
        assert refused.value.code == "host.notes_elsewhere"


async def test_a_node_that_performs_nothing_says_so(opened):
    async with opened(perform=False) as here:
        view = await here.place("o1")
        assert "no process performs effects of this folder now" in view.reason
    async with opened() as here:
        assert (await here.settled(view)).view.status == "ok"


async def test_dead_letters_name_the_effect_and_the_reason(opened):
    async with opened() as here:
        view = await here.place("tired1")
        done = await here.settled(view)
        assert done.receipt.exhausted
        [letter] = await here.world.dead_letters()
        assert (letter.height, letter.intent, letter.intent_height) == (
            done.receipt.height, view.id, view.height,
        )  # fmt: skip
        assert (letter.kind, letter.code) == ("pay.charge", "effects.exhausted")
        assert await here.world.dead_letters(after=letter.height) == []
        with pytest.raises(Rejected) as refused:
            await here.world.dead_letters(limit=0)
        assert refused.value.code == "host.page_limit"


async def test_a_world_is_idle_when_its_effects_are_settled(opened):
    async with opened() as here, opened(own=False) as beside:
        await here.place("o1")
        await here.place("big", 5_000)  # waits for an approval
        await here.place("t", how="timer")
        await beside.world.wait_idle(timeout=30)
        await here.world.wait_idle(timeout=30)
        assert (await here.world.cell("order", "o1").state()).status == "pay.charge ok"
        await here.place("m", how="mail")
        for world in (here.world, beside.world):
            with pytest.raises(TimedOut) as error:
                await world.wait_idle(timeout=0.2)
            assert "1 effects of pay/order are open" in str(error.value)


async def test_a_cell_is_waited_for_while_an_adapter_works_on_its_effect(opened):
    async with opened() as here, opened(own=False) as beside:
        await here.place("o2")
        cell = beside.world.cell("order", "o2")
        paid = await cell.wait_until("state.status == 'pay.charge ok'", timeout=30)
        assert paid == await here.world.cell("order", "o2").state()


async def test_a_look_at_a_cell_with_an_open_effect_reads_no_frame(opened, monkeypatch):
    """Once every look decoded a whole frame to word what the cell waits for."""
    async with opened() as here, opened(own=False) as beside:
        await here.place("m", how="mail")
        await beside.world.cell("order", "m").state()

        def none(*_data, **_options):
            raise AssertionError("a frame was read")

        monkeypatch.setattr(journal_reader, "decode_frame", none)
        for world in (here.world, beside.world):
            assert (await world.cell("order", "m").state()).status == "mailing"
            assert (await world.cell("order", "m").view()).reason.startswith("pay.mail: ")
