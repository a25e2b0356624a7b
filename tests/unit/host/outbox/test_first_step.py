"""An adapter's first step runs before anything is awaited; one that waits cannot tell the difference."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from cellule.effects.adapter import AdapterLimits
from cellule.values.cbor import decode
from tests.support.outbox import check_left_nothing, opening
from tests.support.virtual_tests import in_virtual_time

MARK: ContextVar[int] = ContextVar("MARK", default=0)


def received(found, intent):
    return decode(found[intent].value)["text"]


@in_virtual_time
async def test_an_adapter_that_never_waits_needs_no_timer(bench, work_types, monkeypatch):
    loop = asyncio.get_running_loop()
    timers, call_at = [], loop.call_at

    def counted(when, callback, *args, **more):
        if args == ("expired",):
            timers.append(when)
        return call_at(when, callback, *args, **more)

    monkeypatch.setattr(loop, "call_at", counted)

    async def work(params, attempt):
        if params.number == 2:
            await asyncio.sleep(0)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(work)) as pool:
        intents = await bench.opened(pool, opening(1), opening(2), opening(3))
        await pool.wait_idle()
    assert len(timers) == 1
    await check_left_nothing(bench.world, intents)


@in_virtual_time
async def test_many_quick_attempts_let_others_have_their_turn(bench, work_types):
    turns = []

    async def other():
        while True:
            turns.append(len(bench.performed))
            await asyncio.sleep(0)

    async with bench.pool(bench.worker(concurrency=1)) as pool:
        task = asyncio.create_task(other())
        await bench.opened(pool, *(opening(number) for number in range(80)))
        await pool.wait_idle()
        task.cancel()
    between = {count for count in turns if 0 < count < 80}
    assert len(between) >= 2  # the loop of this test lets tasks have their turns in random order


@in_virtual_time
async def test_what_is_awaited_comes_back_as_it_would_by_await(bench, work_types):
    async def waits(params, attempt):
        task = asyncio.current_task()
        MARK.set(7)
        told = [await asyncio.sleep(1, "slept")]
        future = asyncio.get_running_loop().create_future()
        future.get_loop().call_soon(future.set_exception, LookupError("lost"))
        with pytest.raises(LookupError):
            await future
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            told.append(await tasks.create_task(asyncio.sleep(1, "grouped")))
        assert asyncio.current_task() is task
        assert MARK.get() == 7
        return work_types[1](params.number, " ".join(told))

    async with bench.pool(bench.worker(waits)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    assert received(await check_left_nothing(bench.world, [intent]), intent) == "slept grouped"


@in_virtual_time
async def test_time_spent_in_the_first_step_counts_for_the_timeout(bench, work_types, monkeypatch):
    """The timer is made when the adapter first waits; it must not begin only then."""
    loop = asyncio.get_running_loop()
    time, seen = loop.time, []

    async def late(params, attempt):
        if attempt.number > 1:
            return work_types[1](params.number, "in time")
        monkeypatch.setattr(loop, "time", lambda: time() + 2 * attempt.timeout_s)  # it computes for long
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(attempt.timeout_s / 2)
        except asyncio.CancelledError:
            seen.append("too late")
            raise

    async with bench.pool(bench.worker(late)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    assert seen == ["too late"]
    assert received(await check_left_nothing(bench.world, [intent]), intent) == "in time"


@in_virtual_time
async def test_an_attempt_closed_while_it_waits_is_cancelled_inside_the_adapter(bench):
    heard = []

    async def waits(params, attempt):
        try:
            await asyncio.Event().wait()
        finally:
            heard.append("cleaned up")

    async with bench.pool(bench.worker(waits)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await bench.attempts(1)
        await bench.world.close([intent])
        pool.closed([intent])
        await pool.wait_idle()
    assert heard == ["cleaned up"]


@in_virtual_time
async def test_an_attempt_closed_by_its_own_first_step_is_cancelled_where_it_waits(bench):
    heard = []

    async def waits(params, attempt):
        pool.closed([intent])
        try:
            await asyncio.Event().wait()
        finally:
            heard.append("cleaned up")

    intent = opening(1).intent
    async with bench.pool(bench.worker(waits), bench.worker(kind="test.other")) as pool:
        made = await bench.world.open([opening(1)], bench.clock.now_ns())
        await bench.world.close([intent])
        pool.offer(made.stored)
        await pool.wait_idle()
    assert heard == ["cleaned up"]


@in_virtual_time
async def test_an_adapter_may_return_any_awaitable(bench, work_types):
    class Lazy:
        kind, params, receipt, limits = "test.work", *work_types, AdapterLimits()

        def perform(self, params, attempt):
            return asyncio.ensure_future(asyncio.sleep(1, work_types[1](params.number, "later")))

        async def close(self):
            pass

    async with bench.pool(Lazy()) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    assert received(await check_left_nothing(bench.world, [intent]), intent) == "later"
