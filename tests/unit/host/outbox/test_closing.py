"""Intents that their world settles itself: what is left of them in the outbox goes, and no receipt comes."""

from __future__ import annotations

import asyncio

import pytest

from cellule.effects.adapter import Retry
from cellule.errors import Fenced
from cellule.host.outbox.limits import MAY_BEGIN_S
from cellule.host.outbox.rows import closing_rows
from cellule.store.engine import Batch
from tests.support.outbox import UNIVERSE, WORLD, check_left_nothing, opening
from tests.support.virtual_tests import in_virtual_time


@in_virtual_time
async def test_a_running_attempt_of_a_closed_intent_is_cancelled(bench):
    ended = []

    async def slow(params, attempt):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(params.number)

    async with bench.pool(bench.worker(slow)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await bench.attempts(1)
        await bench.world.close([intent])
        pool.closed([intent])
        await pool.wait_idle()
        assert ended == [1]
    await check_left_nothing(bench.world, [])


@in_virtual_time
async def test_a_waiting_row_of_a_closed_intent_goes_without_an_attempt(bench):
    async def never(params, attempt):
        raise Retry("later", after_s=100)

    async with bench.pool(bench.worker(never)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await asyncio.sleep(1)
        await bench.world.close([intent])
        pool.closed([intent])
        await pool.wait_idle()
        await asyncio.sleep(200)
    assert len(bench.performed) == 1
    await check_left_nothing(bench.world, [])


@in_virtual_time
async def test_a_marker_that_nobody_told_of_is_read_before_the_attempt(bench):
    opened = await bench.world.open([opening(1), opening(2)], bench.clock.now_ns())
    await bench.world.close([opening(1).intent])
    async with bench.pool(bench.worker()) as pool:
        await bench.attempts(1)
        await pool.wait_idle()
    assert [number for number, _ in bench.performed] == [2]
    await check_left_nothing(bench.world, [opened.stored[1].row.intent])


@in_virtual_time
async def test_a_marker_without_row_is_removed(bench):
    await bench.world.close([opening(1).intent])
    async with bench.pool(bench.worker()) as pool:
        await asyncio.sleep(1)
        await bench.world.close([opening(2).intent])
        pool.closed([opening(2).intent])
        await pool.wait_idle()
    await check_left_nothing(bench.world, [])


@in_virtual_time
async def test_a_row_of_a_kind_without_adapter_can_be_closed(bench):
    async with bench.pool(bench.worker()) as pool:
        [intent] = await bench.opened(pool, opening(1, "other.kind"))
        await bench.world.close([intent])
        pool.closed([intent])
        await pool.wait_idle()
    await check_left_nothing(bench.world, [])


def test_an_intent_that_closes_while_its_receipt_is_written_leaves_no_marker(play):
    async def main(bench):
        async with bench.pool(bench.worker()) as pool:
            [intent] = await bench.opened(pool, opening(1))
            await bench.attempts(1)
            await bench.engine.commit(Batch(set=closing_rows(UNIVERSE, WORLD, [intent])))
            pool.closed([intent])
            await pool.wait_idle()
        receipts = await bench.world.receipts()
        await check_left_nothing(bench.world, [receipt.intent for receipt in receipts])
        return len(receipts)

    assert {play(main, seed) for seed in range(40)} <= {0, 1}


@in_virtual_time
async def test_an_attempt_that_shrugs_off_its_cancellation_leaves_no_receipt(bench, work_types):
    async def stubborn(params, attempt):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return work_types[1](params.number)

    async with bench.pool(bench.worker(stubborn, concurrency=1)) as pool:
        [intent, other] = await bench.opened(pool, opening(1), opening(2, timeout_ns=1_000_000_000))
        await bench.attempts(1)
        await bench.world.close([intent])
        pool.closed([intent])
        await pool.wait_idle()
    assert {number for number, _ in bench.performed} == {1, 2}
    assert (await check_left_nothing(bench.world, [other]))[other].status == "ok"


def test_closing_does_not_disturb_the_attempts_that_follow_in_the_same_lane(play, work_types):
    async def main(bench):
        async def brief(params, attempt):
            await asyncio.sleep(0.1)
            return work_types[1](params.number)

        async with bench.pool(bench.worker(brief, concurrency=2)) as pool:
            intents = await bench.opened(pool, *map(opening, range(40)))
            for number, intent in enumerate(intents):
                if number % 3 == 0 and pool.state(intent) is not None:
                    await bench.world.close([intent])
                    pool.closed([intent])
                    await asyncio.sleep(0.05)
            await pool.wait_idle()
        found = {receipt.intent for receipt in await bench.world.receipts()}
        assert {intent for number, intent in enumerate(intents) if number % 3} <= found
        await check_left_nothing(bench.world, sorted(found))

    for seed in range(10):
        play(main, seed)


@in_virtual_time
async def test_a_pool_that_may_not_act_begins_nothing_and_leaves_the_row_to_the_next(bench):
    async with bench.pool(bench.worker(), may_begin=lambda: False) as pool:
        await bench.opened(pool, opening(1))
        await asyncio.sleep(60)
    assert bench.performed == []
    async with bench.pool(bench.worker()) as pool:
        await bench.attempts(1)
        await pool.wait_idle()
    assert [number for number, _ in bench.performed] == [1]


@in_virtual_time
async def test_whether_attempts_may_begin_is_asked_once_for_those_that_begin_together(bench):
    """Asking looks at files, which cost an attempt that does nothing a fifth of its time."""
    asked = []
    async with bench.pool(bench.worker(), may_begin=lambda: not asked.append(bench.clock.now_ns())) as pool:
        await bench.opened(pool, *(opening(number) for number in range(1, 101)))
        await pool.wait_idle()
        assert len(bench.performed) == 100
        assert len(asked) == len(set(asked))
        before = len(asked)
        await asyncio.sleep(MAY_BEGIN_S)
        await bench.opened(pool, opening(101))
        await pool.wait_idle()
        assert len(asked) > before


@in_virtual_time
async def test_a_fenced_pool_ends_its_attempts_at_once(bench):
    async def slow(params, attempt):
        await asyncio.sleep(60)

    async def lose():
        async with bench.pool(bench.worker(slow), grace_s=30) as pool:
            await bench.opened(pool, opening(1))
            await bench.attempts(1)
            raise Fenced("host.fenced", "lost")

    begun_s = asyncio.get_running_loop().time()
    with pytest.raises(Fenced):
        await lose()
    assert asyncio.get_running_loop().time() - begun_s < 1
