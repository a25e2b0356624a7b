"""Tasks side by side: gather, race, spawn, deadlines, cancellation and what cleans up after it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cellule import Cancelled, EffectFailed, StepFailed, Workflow
from tests.support.workflows import Charge, Charged, Paid, Placed, Stopped, Told


async def paid(ctx: Workflow, cents: int) -> int:
    return (await ctx.event(Paid, where=lambda event: event.cents == cents)).cents


def test_gather_gives_all_results_in_order(shop_of):
    async def numbers(ctx: Workflow, new: Placed) -> list[int]:
        return list(await ctx.gather(*(paid(ctx, each) for each in range(3))))

    shop = shop_of(numbers)
    shop.send(Placed("o1"))
    for cents in (2, 0, 1):
        shop.send(Paid("o1", cents))
    assert shop.run().result == [0, 1, 2]


def test_gather_of_nothing_is_there_at_once(shop_of):
    async def order(ctx: Workflow, new: Placed) -> list[int]:
        return await ctx.gather()

    shop = shop_of(order)
    shop.send(Placed("o1"))
    assert shop.run().result == []


def test_the_first_failure_of_a_gather_cancels_the_others_and_waits_for_them(shop_of):
    async def careful(ctx: Workflow, order: str) -> None:
        try:
            await ctx.event(Paid)
        finally:
            await ctx.effect(shop.refund(Charge(order)))

    async def order(ctx: Workflow, new: Placed) -> str:
        try:
            await ctx.gather(careful(ctx, new.order), ctx.effect(shop.charge(Charge(new.order))))
        except EffectFailed as failed:
            return f"{failed.code} at {ctx.now:%H:%M}"
        return "paid"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.fail(code="bank.no")
    assert shop.run().status == "running"
    assert shop.waits() == ["effect pay.refund"]
    shop.complete(kind="pay.refund")
    assert shop.run().result.startswith("bank.no")


def test_a_race_gives_the_first_and_cancels_the_others(shop_of):
    async def order(ctx: Workflow, new: Placed) -> tuple[int, int]:
        won = await ctx.race(ctx.effect(shop.charge(Charge(new.order))), paid(ctx, 7), ctx.sleep(3600))
        return won.at, won.value

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1", 7))
    assert shop.run().result == (1, 7)
    assert list(shop.world.intents) == []
    assert sorted(each.status for each in shop.world.effects) == ["cancelled", "cancelled"]


def test_a_race_whose_first_fails_raises_that(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.race(ctx.effect(shop.charge(Charge(new.order))), ctx.sleep(60))

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.fail(code="bank.no")
    assert (shop.run().status, shop.run().code) == ("failed", "bank.no")


def test_a_race_of_nobody_is_a_mistake(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.race()

    shop = shop_of(order)
    with pytest.raises(StepFailed, match="a race needs somebody"):
        shop.send(Placed("o1"))


def test_a_task_works_beside_the_main_one(shop_of):
    async def reminder(ctx: Workflow, order: str) -> None:
        while True:
            await ctx.sleep(timedelta(days=1))
            ctx.emit(Told(order, "please pay"))

    async def order(ctx: Workflow, new: Placed) -> int:
        ctx.spawn(reminder(ctx, new.order))
        return (await ctx.event(Paid)).cents

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.advance(days=3)
    assert len(shop.world.emitted.of(Told)) == 3
    shop.send(Paid("o1", 5))
    assert (shop.run().result, list(shop.world.intents)) == (5, [])


def test_a_task_that_fails_alone_fails_the_main_one(shop_of):
    async def charged(ctx: Workflow, order: str) -> None:
        await ctx.effect(shop.charge(Charge(order)))

    async def order(ctx: Workflow, new: Placed) -> str:
        ctx.spawn(charged(ctx, new.order))
        try:
            await ctx.event(Paid)
        except EffectFailed as failed:
            return failed.code
        return "paid"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.fail(code="bank.no")
    assert shop.run().result == "bank.no"


def test_a_task_can_be_awaited_later_and_cancelled(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        task = ctx.spawn(paid(ctx, 1))
        other = ctx.spawn(paid(ctx, 2))
        await ctx.sleep(60)
        other.cancel()
        try:
            await other
        except Cancelled:
            return f"{await task} and no other"
        return "both"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1", 1))
    shop.world.advance(minutes=2)
    assert shop.run().result == "1 and no other"


def test_what_a_step_undoes_after_a_cancellation_is_done_in_order(shop_of):
    async def book(ctx: Workflow, order: str) -> None:
        await ctx.effect(shop.charge(Charge(order, 1)))
        try:
            await ctx.event(Paid)
        except Cancelled:
            await ctx.effect(shop.refund(Charge(order, 1)))
            ctx.emit(Told(order, "refunded"))
            raise

    async def order(ctx: Workflow, new: Placed) -> str:
        won = await ctx.race(book(ctx, new.order), ctx.event(Stopped))
        return ["booked", "stopped"][won.at]

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.complete()
    shop.world.restart()
    shop.send(Stopped("o1"))
    assert shop.waits() == ["effect pay.refund"]
    shop.world.restart()
    shop.complete(kind="pay.refund")
    assert shop.run().result == "stopped"
    assert [each.text for each in shop.world.emitted.of(Told)] == ["refunded"]


def test_a_loser_that_goes_on_although_it_was_cancelled_is_waited_for(shop_of):
    async def stubborn(ctx: Workflow) -> None:
        try:
            await ctx.event(Paid)
        except Cancelled:
            await ctx.event(Told)

    async def order(ctx: Workflow, new: Placed) -> int:
        return (await ctx.race(stubborn(ctx), ctx.event(Stopped))).at

    shop = shop_of(order, events=(Paid, Stopped, Told))
    shop.send(Placed("o1"))
    shop.send(Stopped("o1"))
    assert shop.waits() == ["event Told"]
    shop.send(Told("o1"))
    assert shop.run().result == 1


def test_a_deadline_ends_its_block(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        try:
            async with ctx.deadline(timedelta(days=3)):
                await ctx.effect(shop.charge(Charge(new.order)))
                await ctx.event(Paid)
        except TimeoutError:
            return "late"
        return "in time"

    shop = shop_of(order)
    shop.send(Placed("late"))
    shop.send(Placed("early"))
    shop.world.advance(days=1)
    for each in shop.asked():
        shop.world.complete(each, Charged("c"))
    shop.send(Paid("early"))
    shop.world.advance(days=3)
    assert (shop.run("late").result, shop.run("early").result) == ("late", "in time")
    assert list(shop.world.intents) == []


def test_a_deadline_can_be_replaced(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        count = 0
        try:
            async with ctx.deadline(timedelta(hours=1)) as deadline:
                while True:
                    await ctx.event(Paid)
                    count += 1
                    deadline.replace(timedelta(hours=1))
        except TimeoutError:
            return count

    shop = shop_of(order)
    shop.send(Placed("o1"))
    for _ in range(4):
        shop.world.advance(minutes=50)
        shop.send(Paid("o1"))
    assert shop.run().status == "running"
    shop.world.advance(minutes=61)
    assert shop.run().result == 4


def test_a_cancellation_from_elsewhere_passes_a_deadline(shop_of):
    async def inner(ctx: Workflow) -> None:
        async with ctx.deadline(60):
            await ctx.event(Paid)

    async def order(ctx: Workflow, new: Placed) -> str:
        try:
            return str((await ctx.race(inner(ctx), ctx.event(Stopped))).at)
        except TimeoutError:
            return "late"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Stopped("o1"))
    shop.send(Placed("o2"))
    shop.world.advance(minutes=2)
    assert (shop.run("o1").result, shop.run("o2").result) == ("1", "late")


def test_tasks_of_an_ended_run_clean_up_before_it_ends(shop_of):
    async def lent(ctx: Workflow, order: str) -> None:
        try:
            await ctx.event(Paid)
        finally:
            await ctx.effect(shop.refund(Charge(order)))

    async def order(ctx: Workflow, new: Placed) -> str:
        ctx.spawn(lent(ctx, new.order))
        await ctx.event(Stopped)
        return "stopped"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Stopped("o1"))
    assert shop.run().status == "running"
    shop.complete(kind="pay.refund")
    assert (shop.run().status, shop.run().result) == ("completed", "stopped")


def test_again_begins_anew_and_cuts_the_history(shop_of):
    async def order(ctx: Workflow, new: Placed, turns: int = 0, total: int = 0) -> int:
        total += (await ctx.event(Paid)).cents
        if turns < 4:
            ctx.again(new, turns + 1, total)
        return total

    shop = shop_of(order)
    shop.send(Placed("o1"))
    sizes = []
    for cents in range(5):
        assert shop.run().number == cents + 1
        sizes.append(shop.world.host.look("shop/order", b"o1").size)
        shop.world.restart()
        shop.send(Paid("o1", cents))
    assert shop.run().result == 10
    assert max(sizes) - min(sizes) < 40


def test_events_that_nothing_awaited_come_along_to_the_next_run(shop_of):
    async def order(ctx: Workflow, new: Placed, turn: int = 0) -> list[int]:
        await ctx.effect(shop.charge(Charge(new.order)))
        if turn == 0:
            ctx.again(new, 1)
        return [(await ctx.event(Paid)).cents, (await ctx.event(Paid)).cents]

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1", 1))
    shop.send(Paid("o1", 2))
    shop.complete()
    shop.world.restart()
    shop.complete()
    assert shop.run().result == [1, 2]


def test_forever_keeps_the_event_and_replaces_the_state(shop_of):
    async def order(ctx: Workflow, new: Placed, total: int = 0) -> int:
        event = await ctx.event(Paid, Stopped)
        if isinstance(event, Paid):
            ctx.forever(total + event.cents + new.cents)
        return total

    shop = shop_of(order)
    shop.send(Placed("o1", 1))
    shop.send(Paid("o1", 10))
    shop.send(Paid("o1", 20))
    shop.send(Stopped("o1"))
    assert (shop.run().number, shop.run().result) == (3, 32)


def test_finally_runs_before_a_run_goes_on_anew(shop_of):
    async def order(ctx: Workflow, new: Placed, turn: int = 0) -> int:
        if turn:
            return turn
        try:
            ctx.again(new, 1)
        finally:
            await ctx.effect(shop.charge(Charge(new.order)))

    shop = shop_of(order)
    shop.send(Placed("o1"))
    assert shop.run().number == 1
    shop.complete()
    assert (shop.run().number, shop.run().result) == (2, 1)


def test_only_the_main_task_goes_on_anew(shop_of):
    async def other(ctx: Workflow, new: Placed) -> None:
        ctx.again(new)

    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.gather(other(ctx, new))

    shop = shop_of(order)
    with pytest.raises(StepFailed, match="for the main task"):
        shop.send(Placed("o1"))


def test_a_run_that_goes_on_anew_for_ever_in_one_step_fails(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        ctx.again(new)

    shop = shop_of(order)
    with pytest.raises(StepFailed, match="100 times"):
        shop.send(Placed("o1"))
    assert [each.code for each in shop.world.failures] == ["workflow.endless"]
