"""What people do about effects, on the owner and beside it: approve, deny, cancel, retry, inject, repair."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager

import pytest

from cellule.errors import Rejected, Unavailable
from cellule.host.ingress.world_effects import WorldEffects
from cellule.kernel.journal.records import ControlRecord
from cellule.kernel.state.intent_id import parse_intent
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.store import DATABASE


@pytest.fixture(params=["owner", "beside"])
def both(request, opened):
    """The owner, and the handle that acts: its own, or that of another process's node."""

    @asynccontextmanager
    async def open_both():
        async with opened() as here:
            if request.param == "owner":
                yield here, here.world
            else:
                async with opened(own=False) as there:
                    yield here, there.world

    return open_both


async def test_an_approved_effect_is_performed_and_the_journal_says_who_and_why(both):
    async with both() as (here, acting):
        view = await here.place("big", 5_000)
        done = await acting.approve(view.id, who="ann", why="a good customer")
        settled = await here.settled(view)
        assert settled.receipt.status == "ok"
        assert [each.verdict for each in settled.decisions] == ["park", "allow"]
        assert settled.decisions[1].control == done.height
        frame = await anext(here.world.frames(done.height, done.height + 9))
        control = frame.expect(done.height, ControlRecord)
        assert (control.verb, control.who, control.why) == ("effect.approve", "ann", "a good customer")
        await here.stepped("big", "pay.charge ok")


async def test_a_denied_effect_tells_its_cell_so(both):
    async with both() as (here, acting):
        view = await here.place("big", 5_000)
        await acting.deny(view.height, who="ann", why="too much")
        settled = await here.settled(view)
        assert (settled.view.status, settled.receipt.who, settled.receipt.text) == (
            "denied",
            "ann",
            "too much",
        )
        await here.stepped("big", "pay.charge denied")


@pytest.mark.parametrize(("order", "how"), [("hold1", "charge"), ("t", "timer"), ("m", "mail")])
async def test_a_cancelled_effect_is_settled_at_once_whatever_it_waited_for(both, order, how):
    async with both() as (here, acting):
        view = await here.place(order, how=how)
        await acting.cancel(view.id, who="ann", why="changed my mind")
        assert (await here.settled(view)).view.status == "cancelled"
        assert await acting.effects() == []


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_only_what_waits_for_an_approval_can_be_decided(both, verb):
    async with both() as (here, acting):
        view = await here.place("m", how="mail")
        with pytest.raises(Rejected) as refused:
            await getattr(acting, verb)(view.id, who="ann", why="x")
        assert refused.value.code == "kernel.intent_not_parked"


@pytest.mark.parametrize("verb", ["approve", "deny", "cancel"])
async def test_a_settled_or_unknown_effect_cannot_be_decided_any_more(both, verb):
    async with both() as (here, acting):
        view = await here.place("o1")
        await here.settled(view)
        for name in (view.id, view.height, 1):
            with pytest.raises(Rejected) as refused:
                await getattr(acting, verb)(name, who="ann", why="x")
            assert refused.value.code == "host.effect_not_open"
        with pytest.raises(Rejected) as refused:
            await getattr(acting, verb)(view.id, who="", why="x")
        assert refused.value.code == "host.no_who"


@pytest.mark.parametrize("name", ["height", "intent", "intent_height"])
async def test_a_dead_letter_is_asked_for_again_with_the_same_key(both, name):
    async with both() as (here, acting):
        view = await here.place("tired1")
        await here.settled(view)
        [letter] = await acting.dead_letters()
        done = await acting.retry(getattr(letter, name), who="ann", why="the bank is back")
        [again] = await acting.effects(cause=done.height)
        assert (again.idempotency_key, again.cause) == ("tired1", done.height)
        assert again.id != view.id
        assert (await here.settled(again)).receipt.exhausted
        assert [each.intent for each in await acting.dead_letters()] == [again.id]


async def test_an_effect_that_waits_for_its_next_attempt_can_be_made_due_now(both):
    async with both() as (here, acting):
        view = await here.place("later1")
        await here.tried(view, 1)
        before = await here.world.head()
        assert (await acting.retry(view.id, who="ann", why="it is back")).height == 0
        row = await here.tried(view, 2)
        assert row.tried == 2
        assert await here.world.head() == before


async def test_what_has_nothing_to_retry_is_refused(both):
    async with both() as (here, acting):
        parked = await here.place("big", 5_000)
        mail = await here.place("m", how="mail")
        for name, code in (
            (parked.id, "host.effect_not_waiting"),
            (mail.height, "host.effect_not_waiting"),
            (1, "host.no_letter"),
            ("x", "host.effect_id"),
        ):
            with pytest.raises(Rejected) as refused:
                await acting.retry(name, who="ann", why="x")
            assert refused.value.code == code


async def test_a_row_that_moves_meanwhile_is_not_made_due(opened, monkeypatch):
    async with opened() as here:
        view = await here.place("later1")
        await here.tried(view, 1)
        real = WorldEffects._row

        async def outdated(self, intent):
            stored = await real(self, intent)
            return stored._replace(value=stored.value + b"\0")

        monkeypatch.setattr(WorldEffects, "_row", outdated)
        with pytest.raises(Unavailable) as refused:
            await here.world.retry(view.id, who="ann", why="x")
        assert refused.value.code == "host.effect_moved"


async def test_a_receipt_given_by_hand_settles_the_effect_and_says_who_and_why(both, pay):
    async with both() as (here, acting):
        by_json = await here.place("m1", how="mail")
        done = await acting.inject_receipt(by_json.id, "ok", {"id": "m-1"}, who="ann", why="I posted it")
        settled = await here.world.effect(by_json.id)
        assert settled.receipt.height == done.height
        assert (settled.receipt.who, settled.receipt.why) == ("ann", "I posted it")
        assert settled.receipt.value["value"] == {"id": "m-1"}
        assert (await here.stepped("m1", "pay.mail ok")).charge == "m-1"
        by_object = await here.place("m2", how="mail")
        await acting.inject_receipt(by_object.id, value=pay.Sent("m-2"), who="ann", why="that one too")
        assert (await here.stepped("m2", "pay.mail ok")).charge == "m-2"


async def test_a_receipt_given_by_hand_may_say_that_it_failed(both):
    async with both() as (here, acting):
        view = await here.place("hold1")
        await acting.inject_receipt(
            view.id, "failed", who="ann", why="no post today", code="post.closed", text="closed"
        )
        settled = await here.settled(view)
        assert (settled.receipt.status, settled.receipt.code, settled.receipt.text) == (
            "failed", "post.closed", "closed",
        )  # fmt: skip


async def test_a_receipt_that_cannot_be_is_refused_and_nothing_is_settled(both):
    async with both() as (here, acting):
        view = await here.place("m", how="mail")
        for status, value, who, code in (
            ("ok", {"id": 5}, "ann", "schema.mismatch"),
            ("ok", None, "ann", "schema.mismatch"),
            ("failed", {"id": "x"}, "ann", "effects.inject_value"),
            ("abandoned", None, "ann", "effects.inject_status"),
            ("fine", None, "ann", "effects.inject_status"),
            ("ok", {"id": "x"}, "", "host.no_who"),
        ):
            with pytest.raises(Rejected) as refused:
                await acting.inject_receipt(view.id, status, value, who=who, why="x")
            assert refused.value.code == code
        with pytest.raises(Rejected) as refused:
            await acting.inject_receipt(view.id, "ok", {"id": "x"}, who="ann", why="")
        assert refused.value.code == "effects.inject_unsigned"
        assert [each.height for each in await acting.effects()] == [view.height]


async def test_the_second_receipt_of_an_effect_is_refused(both):
    async with both() as (here, acting):
        view = await here.place("m", how="mail")
        await acting.inject_receipt(view.id, "ok", {"id": "x"}, who="ann", why="once")
        with pytest.raises(Rejected) as refused:
            await acting.inject_receipt(view.id, "ok", {"id": "y"}, who="bob", why="twice")
        assert refused.value.code == "host.effect_not_open"


async def test_a_receipt_that_comes_late_is_refused_and_recorded(opened, monkeypatch):
    """The intent is settled between the look and the receipt."""
    async with opened() as here:
        view = await here.place("m", how="mail")
        real = WorldEffects._open

        async def overtaken(self, intent):
            found = await real(self, intent)
            monkeypatch.undo()
            await here.world.cancel(view.id, who="bob", why="faster")
            return found

        monkeypatch.setattr(WorldEffects, "_open", overtaken)
        with pytest.raises(Rejected) as refused:
            await here.world.inject_receipt(view.id, "ok", {"id": "x"}, who="ann", why="slower")
        assert refused.value.code == "kernel.receipt_late"
        assert (await here.world.effect(view.id)).receipt.status == "cancelled"


async def test_a_lost_row_is_repaired_and_performed(both):
    async with both() as (here, acting):
        view = await here.place("later1")
        await here.tried(view, 1)
        place = keys.effect_at(parse_intent(view.id))
        [at] = await here.engine.read([place])
        [value] = await here.engine.read([at])
        await here.engine.commit(Batch(expect={at: value}, clear=[at, place]))
        assert "effect repair" in (await acting.effect(view.id)).view.reason
        tried = await acting.repair_effects(dry_run=True)
        assert (tried.dry_run, tried.open, tried.missing) == (True, 1, [parse_intent(view.id)])
        assert (await acting.repair_effects(dry_run=True)).missing == tried.missing
        assert not (await acting.repair_effects()).is_clean
        assert (await acting.repair_effects(dry_run=True)).is_clean


async def test_a_damaged_row_is_repaired_and_performed_and_the_node_goes_on(opened, tmp_path):
    """Whoever listed effects, or repaired them, was told of a row of the store and nothing else."""
    async with opened(perform=False) as here:
        view = await here.place("fine1")
        place = keys.effect_at(parse_intent(view.id))
        [at] = await here.engine.read([place])
    for key in (at, place):
        with sqlite3.connect(tmp_path / "data" / DATABASE) as connection:
            assert connection.execute("UPDATE rows SET value = x'00' WHERE key = ?", (key,)).rowcount == 1
        connection.close()
    async with opened() as here:
        assert (await here.settled(await here.place("fine2"))).receipt.status == "ok"
        [listed] = await here.world.effects()
        assert listed.id == view.id
        assert "its outbox row cannot be read: cellule effect repair" in listed.reason
        report = await here.world.repair_effects()
        assert (report.unreadable, report.missing) == ([at], [parse_intent(view.id)])
        assert (await here.settled(view)).receipt.status == "ok"


@pytest.mark.parametrize("name", ["code", "text", "who", "why"])
async def test_a_long_text_is_refused_by_its_length_before_anything_is_done(opened, name):
    """It was said to be no text at all; once it was a row of the store that was too long."""
    async with opened(perform=False) as here:
        view = await here.place("m1", how="mail")
        given = {"code": "pay.no", "text": "no", "who": "ann", "why": "asked", name: "x" * 300_000}
        with pytest.raises(Rejected, match=f"`{name}` is 300000 characters long; it must be at most"):
            await here.world.inject_receipt(view.id, "failed", **given)
        assert (await here.world.effect(view.height)).receipt is None
