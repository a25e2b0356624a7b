"""Code that means no good, or knows no better: one step fails, with a clear record, and nothing else."""

from __future__ import annotations

import gc
import types
from typing import Any

import pytest

from cellule import Cancelled, Refused, StepFailed, Workflow
from cellule.modules.workflow.limits import EVENTS_KEPT_MAX, TASKS_MAX, WARM_MAX
from cellule.modules.workflow.program import WorkflowProgram
from cellule.testing import World
from tests.support.workflows import Charge, Paid, Placed, Shop, Stopped


@types.coroutine
def foreign():
    yield 42


def fails(shop: Shop, code: str, match: str | None = None) -> None:
    """The first event of a run fails by this code, and the world goes on."""
    with pytest.raises(StepFailed, match=match):
        shop.send(Placed("o1"))
    assert [each.code for each in shop.world.failures] == [code]
    assert shop.run() is None


def test_awaiting_what_is_not_of_the_run_names_what_to_await(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        await foreign()

    fails(shop_of(order), "workflow.foreign_await", "ctx.sleep")


def test_awaiting_what_is_not_of_the_run_cannot_be_caught(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        while True:
            try:
                await foreign()
            except BaseException:  # noqa: BLE001 - which is what hostile code does
                break

    fails(shop_of(order), "workflow.foreign_await")


def test_awaiting_what_another_run_gave_is_refused(shop_of):
    lent: list[Any] = []

    async def order(ctx: Workflow, new: Placed) -> None:
        if new.order == "o1":
            lent.append(ctx.event(Paid))
        await lent[0]

    shop = Shop(order)
    shop.send(Placed("o1"))
    with pytest.raises(StepFailed, match="not of this run"):
        shop.send(Placed("o2"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, BaseException])
def test_whatever_is_raised_fails_the_step(shop_of, error):
    async def order(ctx: Workflow, new: Placed) -> None:
        raise error

    fails(shop_of(order), "modules.exception", error.__name__)


def test_endless_loops_are_ended_by_the_watchdog(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        while True:
            pass

    shop = Shop(order)
    shop.world = World(shop.app, limit_s=0.2, elsewhere=False, guard=False)
    with pytest.raises(StepFailed, match="ran longer than"):
        shop.send(Placed("o1"))
    shop.world.close()


def test_thousands_of_tasks_are_fine_and_more_are_refused(shop_of):
    async def nothing(ctx: Workflow) -> int:
        await ctx.event(Paid)
        return 1

    async def order(ctx: Workflow, new: Placed) -> int:
        return sum(await ctx.gather(*(nothing(ctx) for _ in range(new.cents))))

    shop = shop_of(order)
    shop.send(Placed("o2", 3_000))
    assert len(shop.run("o2").waits) == 20
    with pytest.raises(StepFailed, match=f"has {TASKS_MAX} tasks already"):
        shop.send(Placed("o3", TASKS_MAX + 1))
    assert [each.code for each in shop.world.failures] == ["workflow.tasks_max"]


@pytest.mark.parametrize(
    ("value", "code"),
    [(object(), "workflow.value"), ("\ud800", "workflow.value"), ("x" * 600_000, "workflow.value_size")],
)
def test_a_result_that_is_no_value_fails_the_step(shop_of, value, code):
    async def order(ctx: Workflow, new: Placed) -> str:
        return value

    fails(shop_of(order), code)


def test_a_result_of_a_workflow_that_promised_none_fails_the_step(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        return 1  # type: ignore[return-value]

    fails(shop_of(order), "workflow.result")


def test_publishing_what_is_no_value_fails_the_step(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        ctx.publish({object()})

    fails(shop_of(order), "modules.value_invalid", "what is published")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda ctx, shop: ctx.effect(shop.charge), "is the effect itself"),
        (lambda ctx, shop: ctx.effect(Charge("o1")), "is no request"),
        (lambda ctx, shop: ctx.sleep("long"), "a timedelta or seconds, not a str"),
        (lambda ctx, shop: ctx.event(Charge), "no event that comes to this workflow"),
        (lambda ctx, shop: ctx.event(int), "no event that comes to this workflow"),
        (lambda ctx, shop: ctx.gather(1), "not a int"),
        (lambda ctx, shop: ctx.again(1), "begins with an event, not with a int"),
        (lambda ctx, shop: ctx.again(), "takes what order takes"),
        (lambda ctx, shop: ctx.forever(1), "gives order its last parameter"),
    ],
)
def test_mistakes_are_told_with_what_to_write(shop_of, wrong, told):
    async def order(ctx: Workflow, new: Placed) -> None:
        await wrong(ctx, shop)

    shop = shop_of(order)
    with pytest.raises(StepFailed, match=told):
        shop.send(Placed("o1"))


def test_a_run_whose_tasks_wait_for_each_other_is_told(shop_of):
    async def order(ctx: Workflow, new: Placed) -> None:
        tasks: list[Any] = []

        async def one() -> None:
            await tasks[1]

        async def two() -> None:
            await tasks[0]

        tasks += [ctx.spawn(one()), ctx.spawn(two())]
        await tasks[0]

    fails(shop_of(order), "workflow.deadlock")


def test_events_that_nothing_awaits_are_refused_once_there_are_too_many(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        await ctx.event(Stopped)
        count = 0
        while True:
            try:
                await ctx.event(Paid, timeout=1)
            except TimeoutError:
                return count
            count += 1

    shop = Shop(order)
    shop.send(Placed("o1"))
    shop.world.send_many([Paid("o1") for _ in range(EVENTS_KEPT_MAX)])
    with pytest.raises(Refused, match="keeps 1000 events"):
        shop.send(Paid("o1"))
    shop.send(Stopped("o1"))
    shop.world.advance(seconds=2)
    assert shop.run().result == EVENTS_KEPT_MAX


def test_swallowed_cancellations_keep_nothing_but_their_own_run(shop_of):
    async def stubborn(ctx: Workflow) -> None:
        while True:
            try:
                await ctx.event(Paid)
            except Cancelled:
                continue

    async def order(ctx: Workflow, new: Placed) -> int:
        return (await ctx.race(stubborn(ctx), ctx.event(Stopped))).at

    shop = shop_of(order)
    shop.send(Placed("o1"))
    shop.send(Stopped("o1"))
    assert shop.waits() == ["event Paid"]
    shop.send(Placed("o2"))
    assert shop.run("o2").status == "running"


def programs_of(shop: Shop) -> list[WorkflowProgram]:
    """The programs of a world, as they keep their coroutines."""
    eras = shop.world.host._kernel.eras
    guarded = [each for era in eras._compiled.values() for each in era.programs.values()]
    return [each.program for each in guarded]


def test_a_coroutine_that_is_let_go_does_nothing_more(shop_of):
    seen: list[str] = []

    async def order(ctx: Workflow, new: Placed) -> None:
        try:
            await ctx.event(Paid)
        finally:
            seen.append("finally")
            ctx.emit(Stopped(new.order))
            seen.append("never")

    shop = shop_of(order)
    shop.send(Placed("o1"))
    for program in programs_of(shop):
        assert len(program._warm) == 1
        program.forget()
        assert program._warm == {}
    assert seen == ["finally"]
    assert shop.world.emitted.of(Stopped) == []
    shop.send(Paid("o1"))
    assert len(shop.world.emitted.of(Stopped)) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_coroutine_that_refuses_to_end_is_set_aside():
    async def order(ctx: Workflow, new: Placed) -> None:
        while True:
            try:
                await ctx.event(Paid)
            except BaseException:  # noqa: BLE001 - which is what hostile code does
                continue

    shop = Shop(order)
    shop.send(Placed("o1"))
    for program in programs_of(shop):
        program.forget()
    gc.collect()
    shop.send(Paid("o1"))
    assert shop.run().status == "running"
    for program in programs_of(shop):
        program.forget()
    del shop, program
    gc.collect()


def test_a_coroutine_that_the_interpreter_collects_does_nothing_more():
    seen: list[str] = []

    async def order(ctx: Workflow, new: Placed) -> None:
        try:
            await ctx.event(Paid)
        except BaseException:
            seen.append("closed")
            await ctx.effect(shop.charge(Charge(new.order)))
            seen.append("never")
            raise

    shop = Shop(order)
    shop.send(Placed("o1"))
    for program in programs_of(shop):
        program._warm.clear()
    gc.collect()
    assert seen == ["closed"]


def test_only_so_many_coroutines_are_kept(shop_of, monkeypatch):
    monkeypatch.setattr("cellule.modules.workflow.program.WARM_MAX", 3)
    assert WARM_MAX > 3

    async def order(ctx: Workflow, new: Placed) -> str:
        await ctx.event(Paid)
        return new.order

    shop = shop_of(order)
    for at in range(10):
        shop.send(Placed(f"o{at}"))
    for program in programs_of(shop):
        assert [key for _, key in program._warm] == [b"o7", b"o8", b"o9"]
    for at in range(10):
        shop.send(Paid(f"o{at}"))
        assert shop.run(f"o{at}").result == f"o{at}"


def test_a_step_that_failed_leaves_no_coroutine_behind(shop_of):
    async def order(ctx: Workflow, new: Placed) -> float:
        return 1 / (await ctx.event(Paid)).cents

    shop = shop_of(order)
    shop.send(Placed("o1"))
    with pytest.raises(StepFailed):
        shop.send(Paid("o1", 0))
    for program in programs_of(shop):
        assert program._warm == {}


def test_a_long_history_resumes_and_its_log_is_read_only_when_it_must_be(shop_of):
    async def order(ctx: Workflow, new: Placed) -> int:
        total = 0
        while (paid := await ctx.event(Paid)).cents:
            total += paid.cents
        return total

    shop = Shop(order)
    shop.send(Placed("o1"))
    for _ in range(40):
        shop.world.send_many([Paid("o1", 1) for _ in range(50)])
    assert len(shop.world.host.look("shop/order", b"o1").get("log")) >= 5
    read: list[Any] = []
    for program in programs_of(shop):
        step = program.step
        program.step = lambda *given, step=step: read.append(given) or step(*given)  # type: ignore[method-assign]
    shop.send(Paid("o1", 1))
    assert read == []
    shop.world.restart()
    for program in programs_of(shop):
        program.forget()
    shop.send(Paid("o1", 0))
    assert shop.run().result == 2_001
