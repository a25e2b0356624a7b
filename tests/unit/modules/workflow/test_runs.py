"""A run from its first event to its end: effects, timers, events, and what readers see of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cellule import EffectDenied, EffectFailed, EffectTimedOut, Refused, StepFailed, Workflow, rule
from tests.support.workflows import Charge, Charged, Paid, Placed, Shop, Stopped, Told


def test_a_run_asks_for_an_effect_and_ends_with_what_it_makes_of_the_receipt(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        charged = await ctx.effect(shop.charge(Charge(new.order, new.cents)))
        return f"paid by {charged.id}"

    shop = shop_of(order)
    shop.send(Placed("o1", 30))
    assert (shop.run().status, shop.waits()) == ("running", ["effect pay.charge"])
    shop.complete("c7")
    assert (shop.run().status, shop.run().result) == ("completed", "paid by c7")
    assert shop.run().waits == ()


def test_each_key_has_its_own_run(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        paid = await ctx.event(Paid)
        return new.cents + paid.cents

    shop = shop_of(order)
    shop.send(Placed("o1", 1))
    shop.send(Placed("o2", 2))
    shop.send(Paid("o2", 20))
    assert (shop.run("o1").status, shop.run("o2").result) == ("running", 22)


def test_a_run_sleeps_for_months_across_restarts(shop_of):
    async def order(ctx: Workflow, new: Placed) -> float:
        begun = ctx.now
        await ctx.sleep(timedelta(days=90))
        await ctx.sleep(1.5)
        return (ctx.now - begun).total_seconds()

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.advance(days=89)
    shop.world.restart()
    assert shop.waits() == ["sleep 90d"]
    shop.world.advance(days=2)
    assert shop.run().result == 90 * 86_400 + 1.5


def test_a_run_sleeps_until_a_time(shop_of):
    async def order(ctx: Workflow, new: Placed) -> bool:
        until = ctx.now + timedelta(hours=5)
        await ctx.sleep_until(until)
        return ctx.now >= until

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.advance(hours=6)
    assert shop.run().result is True


def test_an_event_in_time_ends_the_wait_and_its_timer(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        return (await ctx.event(Paid, timeout=timedelta(days=3))).cents

    shop = shop_of(order)
    shop.send(Placed("o1"))
    assert [each.kind for each in shop.world.intents] == ["timer.set"]
    shop.send(Paid("o1", 9))
    assert (shop.run().result, list(shop.world.intents)) == (9, [])


def test_an_event_that_does_not_come_in_time_raises_a_timeout(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        try:
            await ctx.event(Paid, timeout=timedelta(days=3))
        except TimeoutError:
            return "late"
        return "paid"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.advance(days=4)
    assert shop.run().result == "late"


def test_an_event_that_does_not_come_in_time_gives_the_default(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        paid = await ctx.event(Paid, timeout=timedelta(days=3), default=None)
        stopped = await ctx.event(Stopped, timeout=timedelta(days=3), default=None)
        return f"{paid and paid.cents} {stopped and stopped.why}"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1", 9))
    shop.world.restart()
    shop.world.advance(days=4)
    assert shop.run().result == "9 None"


def test_a_timeout_that_nobody_catches_fails_the_run_and_not_its_cell(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.event(Paid, timeout=60)

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.advance(minutes=2)
    assert (shop.run().status, shop.run().code) == ("failed", "workflow.timeout")
    assert shop.world.failures == []


def test_events_that_come_early_are_kept_in_their_order(shop_of):
    async def order(ctx: Workflow, new: Placed) -> list[int]:
        await ctx.effect(shop.charge(Charge(new.order)))
        return [(await ctx.event(Paid)).cents for _ in range(3)]

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1", 1))
    shop.send(Paid("o1", 2))
    shop.complete()
    shop.send(Paid("o1", 3))
    assert shop.run().result == [1, 2, 3]


def test_where_chooses_among_events_and_leaves_the_others(shop_of):
    async def order(ctx: Workflow, new: Placed) -> list[int]:
        large = await ctx.event(Paid, where=lambda paid: paid.cents > 10)
        small = await ctx.event(Paid)
        return [large.cents, small.cents]

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1", 5))
    shop.send(Paid("o1", 50))
    assert shop.run().result == [50, 5]


def test_a_wait_for_one_of_several_events_gives_the_first(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        match await ctx.event(Paid, Stopped):
            case Paid(cents=cents):
                return f"paid {cents}"
            case Stopped(why=why):
                return f"stopped {why}"

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Stopped("o1", "no stock"))
    assert shop.run().result == "stopped no stock"


@pytest.mark.parametrize("same_kind", [True, False])
def test_who_waits_no_longer_takes_no_effect_of_the_same_key_from_others(shop_of, same_kind):
    """A reminder that was given up cancelled the charge of the same order, which was still awaited."""

    async def order(ctx: Workflow, new: Placed) -> str:
        other = shop.charge if same_kind else shop.refund
        paid = ctx.effect(shop.charge(Charge(new.order), key=new.order))
        await ctx.race(ctx.effect(other(Charge(new.order), key=new.order)), ctx.sleep(60))
        return (await paid).id

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.advance(seconds=61)
    assert [each.status for each in shop.world.effects.of(shop.charge)][:1] == ["open"]
    for each in shop.asked():
        if each.status == "open":
            shop.world.complete(each, Charged(f"of {each.kind}"))
    assert shop.run().result == f"of {shop.charge.kind}"


def test_an_effect_that_nobody_waits_for_is_cancelled_with_the_last_of_its_key(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        both = (ctx.effect(effect(Charge(new.order), key=new.order)) for effect in (shop.charge, shop.refund))
        won = await ctx.race(ctx.sleep(60), ctx.gather(*both))
        return won.at

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.advance(seconds=61)
    assert shop.run().result == 0
    assert [each.status for each in shop.world.effects if each.kind != "timer.set"] == ["cancelled"] * 2


def test_a_failed_effect_raises_what_its_receipt_says(shop_of):
    async def order(ctx: Workflow, new: Placed) -> list[str]:
        found = []
        for _ in range(3):
            try:
                await ctx.effect(shop.charge(Charge(new.order)))
            except EffectFailed as error:
                found.append(f"{type(error).__name__} {error.status} {error.code}")
        return found

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.fail(code="bank.no_money", text="no money")
    shop.world.time_out(shop.asked()[0])
    shop.world.cancel(shop.asked()[0])
    assert shop.run().result == [
        "EffectFailed failed bank.no_money",
        "EffectTimedOut timeout effects.timeout",
        "EffectCancelled cancelled kernel.cancelled",
    ]
    assert issubclass(EffectTimedOut, EffectFailed)
    assert issubclass(EffectDenied, EffectFailed)


def test_a_failed_effect_that_nobody_catches_fails_the_run(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.effect(shop.charge(Charge(new.order)))

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.fail(code="bank.no_money", text="no money")
    assert (shop.run().status, shop.run().code) == ("failed", "bank.no_money")
    assert shop.run().text == "pay.charge failed: no money"


def test_a_refusal_that_nobody_catches_fails_the_run_with_its_code(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        raise Refused("too small", code="small")

    shop = shop_of(order)
    shop.send(Placed("o1"))
    assert (shop.run().status, shop.run().code, shop.run().text) == ("failed", "small", "too small")


def test_a_mistake_in_the_code_halts_the_cell_and_changes_nothing(shop_of):
    async def order(ctx: Workflow, new: Placed) -> float:
        paid = await ctx.event(Paid)
        return 100 / paid.cents

    shop = shop_of(order)
    shop.send(Placed("o1"))
    with pytest.raises(StepFailed, match="ZeroDivisionError"):
        shop.send(Paid("o1", 0))
    assert shop.run().status == "running"
    assert shop.world.cell(order, "o1").status == "halted"
    assert [each.code for each in shop.world.failures] == ["modules.exception"]
    shop.world.drop(order, "o1")
    shop.send(Paid("o1", 50))
    assert shop.run().result == 2.0


def test_two_effects_that_are_asked_for_first_run_side_by_side(shop_of):
    async def order(ctx: Workflow, new: Placed) -> list[str]:
        one = ctx.effect(shop.charge(Charge(new.order, 1)))
        two = ctx.effect(shop.charge(Charge(new.order, 2)))
        return [(await one).id, (await two).id]

    shop = shop_of(order)
    shop.send(Placed("o1"))
    first, second = shop.asked()
    shop.world.complete(second, Charged("b"))
    shop.world.complete(first, Charged("a"))
    assert shop.run().result == ["a", "b"]


def test_an_effect_that_nobody_awaits_is_done_all_the_same(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        ctx.effect(shop.charge(Charge(new.order)))

    shop = shop_of(order)
    shop.send(Placed("o1"))
    assert shop.run().status == "completed"
    shop.complete()
    assert [each.status for each in shop.world.effects] == ["ok"]


def test_a_run_sends_events_in_order(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        ctx.emit(Told(new.order, "one"))
        await ctx.event(Paid)
        ctx.emit(Told(new.order, "two"))

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1"))
    assert [each.text for each in shop.world.emitted.of(Told)] == ["one", "two"]


def test_a_call_sends_an_event_and_waits_for_the_answer(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        answer = await ctx.call(Told(new.order, "pay!"), Paid, where=lambda paid: paid.cents > 0, timeout=60)
        return answer.cents

    shop = shop_of(order)
    shop.send(Placed("o1"))
    assert [each.text for each in shop.world.emitted.of(Told)] == ["pay!"]
    shop.send(Paid("o1", 0))
    shop.send(Paid("o1", 3))
    assert shop.run().result == 3


def test_what_a_run_publishes_is_seen_by_readers(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        for step in range(3):
            ctx.publish({"step": step, "last": Charge(new.order).order})
            await ctx.event(Paid)

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Paid("o1"))
    assert shop.run().published == {"step": 1, "last": "o1"}
    shop.send(Paid("o1"))
    shop.send(Paid("o1"))
    assert (shop.run().status, shop.run().published["step"]) == ("completed", 2)


def test_time_chance_and_ids_repeat(shop_of):
    async def order(ctx: Workflow, new: Placed) -> list[str]:
        found = [str(ctx.uuid()), str(ctx.random.random())]
        await ctx.event(Paid)
        return [*found, str(ctx.uuid()), str(ctx.random.random()), ctx.now.isoformat(), ctx.key]

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.world.restart()
    shop.send(Paid("o1"))
    found = shop.run().result
    assert len(set(found)) == 6
    assert found[-1] == "o1"


def test_an_event_for_no_run_makes_no_cell(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await ctx.event(Paid)

    shop = shop_of(order)
    shop.send(Paid("o1"))
    assert shop.run() is None


def test_an_event_that_starts_changes_nothing_while_there_is_a_run_and_after_it(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        await ctx.event(Paid)
        return new.cents

    shop = shop_of(order)
    shop.send(Placed("o1", 1))
    shop.send(Placed("o1", 2))
    assert shop.world.cell(order, "o1").history()[-1].ann == {
        "ignored": "the run of this cell is under way already"
    }
    shop.send(Paid("o1"))
    shop.send(Placed("o1", 3))
    assert shop.run().result == 1
    assert "has ended" in shop.world.cell(order, "o1").history()[-1].ann["ignored"]


def test_the_history_of_a_run_is_told_line_by_line(shop_of):
    async def order(ctx: Workflow, new: Placed) -> str:
        charged = await ctx.effect(shop.charge(Charge(new.order)))
        return charged.id

    shop = shop_of(order)
    shop.send(Placed("o1", 5))
    shop.complete("c1")
    lines = [line for version in shop.world.cell(order, "o1").history() for line in version.state]
    assert lines[0] == 'run 1 begins with shop/Placed@1 {"cents": 5, "order": "o1"}'
    assert lines[1].startswith("-> effect pay.charge (test_runs.py:")
    assert lines[-1] == 'completed: "c1"'


def test_a_timer_that_the_policy_denies_is_told_where_it_is_awaited():
    async def order(ctx: Workflow, new: Placed) -> list[str]:
        found = []
        try:
            await ctx.sleep(60)
        except EffectDenied as denied:
            found.append(denied.status)
        try:
            await ctx.event(Paid, timeout=60)
        except EffectDenied as denied:
            found.append(denied.text)
        try:
            async with ctx.deadline(60):
                await ctx.event(Paid)
        except EffectDenied as denied:
            found.append(denied.kind)
        return found

    shop = Shop(
        order, policy=rule(name="no naps", when='effect.kind == "timer.set"', then="deny", reason="no")
    )
    shop.send(Placed("o1"))
    assert shop.run().result == ["denied", "no", "timer.set"]
    shop.replays()
