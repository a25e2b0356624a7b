"""Effects that somebody outside completes, on the owner and beside it, over a restart."""

from __future__ import annotations

import asyncio

import pytest

from cellule.errors import Rejected
from cellule.kernel.decide.intents import settle
from cellule.kernel.journal.records import RefusedRecord


async def held(here, pay, order):
    """Place an order whose adapter leaves it to others, and wait until the world knows."""
    view = await here.place(order)
    async for _ in here.world.tail(view.height - 1):
        if (await here.world.effect(view.height)).view.status == "outside":
            return view, pay.TOKENS[order]
    return None


async def test_an_effect_is_completed_by_its_token(opened, pay):
    async with opened() as here:
        view, token = await held(here, pay, "outside1")
        found = (await here.world.effect(view.height)).view
        assert "somebody outside completes" in found.reason
        assert found.due_ns - found.since_ns > 2 * 86_400 * 10**9  # of the three days that its adapter gave
        assert [each.height for each in await here.world.effects(status="outside")] == [view.height]
        done = await here.world.complete(token, pay.Charged("ch-1"), who="bank", why="its webhook")
        assert (await here.stepped("outside1", "pay.charge ok")).charge == "ch-1"
        receipt = (await here.world.effect(view.height)).receipt
        assert (receipt.height, receipt.who, receipt.why) == (done.height, "bank", "its webhook")


async def test_a_token_holds_over_a_restart_and_only_once(opened, pay):
    async with opened() as here:
        view, token = await held(here, pay, "outside2")
    async with opened() as here:
        assert (await here.world.effect(view.height)).view.status == "outside"
        await here.world.fail(token, "pay.refused", "card expired")
        assert (await here.world.effect(view.height)).receipt.status == "failed"
        with pytest.raises(Rejected) as refused:
            await here.world.complete(token, pay.Charged("late"))
        assert refused.value.code == "kernel.receipt_late"
        found = [each async for frame in here.world.frames() for _, each in frame.of(RefusedRecord)]
        assert [each.code for each in found] == ["kernel.receipt_late"]


async def test_what_is_no_token_or_no_fitting_value_changes_nothing(opened, pay):
    async with opened() as here:
        view, token = await held(here, pay, "outside3")
        before = await here.world.head()
        with pytest.raises(Rejected) as refused:
            await here.world.complete("nonsense", pay.Charged("x"))
        assert refused.value.code == "effects.token"
        with pytest.raises(Rejected):
            await here.world.complete(token, {"id": 7})
        assert (await here.world.head()).height == before.height
        assert (await here.world.effect(view.height)).view.status == "outside"


async def test_a_process_beside_the_owner_completes_it(opened, pay):
    async with opened() as here:
        view, token = await held(here, pay, "outside4")
        async with opened(own=False, perform=False) as beside:
            await beside.world.complete(token, pay.Charged("ch-4"))
        assert (await here.settled(view)).receipt.status == "ok"


async def test_who_completes_it_from_beside_the_owner_is_told_when_the_receipt_is_set_aside(
    opened, pay, monkeypatch
):
    """They heard that the receipt was lost, because its refusal did not have the intent's id."""
    sound = settle.admit

    def fall(context, item):
        if item.who == "bank":
            raise ZeroDivisionError("a defect of receipts")
        return (yield from sound(context, item))

    monkeypatch.setattr(settle, "admit", fall)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    async with opened() as here:
        view, token = await held(here, pay, "outside5")
        async with opened(own=False, perform=False) as beside:
            with pytest.raises(Rejected, match=r"could not take receipt: .*a defect of receipts") as refused:
                await beside.world.complete(token, pay.Charged("ch-5"), who="bank")
            assert refused.value.code == "host.set_aside"
            await beside.world.complete(token, pay.Charged("ch-5"), who="another")
        assert (await here.settled(view)).receipt.status == "ok"
