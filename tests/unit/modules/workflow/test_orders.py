"""What somebody outside tells a run: to stop, which it does after cleaning up, or to begin anew."""

from __future__ import annotations

import pytest

from cellule import Cancelled, Refused, StepFailed, Workflow
from tests.support.workflows import Charge, Paid, Placed


def tell(shop, verb: str, why: str = "she asked", order: str = "o1"):
    return shop.world.send(("order_order", {"verb": verb, "why": why}), key=order)


def test_a_cancelled_run_ends_where_it_waits(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.effect(shop.charge(Charge(new.order)))

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.restart()
    tell(shop, "cancel")
    assert (shop.run().status, shop.run().text) == ("cancelled", "she asked")
    assert [each.status for each in shop.world.effects] == ["cancelled"]


def test_a_cancelled_run_undoes_what_it_did(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.effect(shop.charge(Charge(new.order)))
        try:
            await ctx.event(Paid)
        finally:
            await ctx.effect(shop.refund(Charge(new.order)))

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.complete()
    tell(shop, "cancel")
    tell(shop, "cancel", "again")
    assert (shop.run().status, shop.waits()) == ("running", ["effect pay.refund"])
    shop.world.restart()
    shop.complete(kind="pay.refund")
    assert (shop.run().status, shop.run().text) == ("cancelled", "she asked")


def test_a_run_may_decline_to_be_cancelled(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        try:
            await ctx.event(Paid)
        except Cancelled:
            return f"too late, {(await ctx.event(Paid)).cents} was sent"
        return "paid"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    tell(shop, "cancel")
    shop.send(Paid("o1", 4))
    assert (shop.run().status, shop.run().result) == ("completed", "too late, 4 was sent")


def test_cancelling_what_is_not_there_or_has_ended_changes_nothing(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        return "done"

    shop = shop_of(order)
    tell(shop, "cancel")
    assert shop.run() is None
    shop.send(Placed("o1"))
    tell(shop, "cancel")
    assert shop.run().status == "completed"


def test_a_run_that_runs_again_begins_with_the_same_event_and_takes_back_what_was_open(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        charged = await ctx.effect(shop.charge(Charge(new.order, new.cents)))
        await ctx.event(Paid, timeout=3600)
        return charged.id

    shop = shop_of(order)
    shop.send(Placed("o1", 8))
    shop.complete("first")
    shop.world.restart()
    tell(shop, "rerun")
    assert (shop.run().status, shop.run().number) == ("running", 2)
    [asked] = shop.world.intents
    assert asked.params == Charge("o1", 8)
    shop.complete("second")
    shop.send(Paid("o1"))
    assert shop.run().result == "second"
    tell(shop, "rerun")
    assert (shop.run().status, shop.run().number) == ("running", 3)
    tell(shop, "cancel")


def test_a_halted_run_begins_anew_once_the_event_that_halts_it_is_dropped(shop_of):
    async def order(ctx: Workflow, new: Placed) -> float:
        return 1 / (await ctx.event(Paid)).cents

    shop = shop_of(order)
    shop.send(Placed("o1"))
    with pytest.raises(StepFailed):
        shop.send(Paid("o1", 0))
    shop.world.send(("order_order", {"verb": "rerun"}), key="o1", check=False)
    shop.world.drop(order, "o1")
    assert (shop.run().status, shop.run().number) == ("running", 2)
    shop.send(Paid("o1", 4))
    assert shop.run().result == 0.25


def test_an_order_that_does_not_exist_is_refused(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.event(Paid)

    shop = shop_of(order)
    shop.send(Placed("o1"))
    with pytest.raises(Refused, match="not to 'sing'"):
        tell(shop, "sing")
    assert shop.run().status == "running"
