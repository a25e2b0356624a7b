"""The pool: attempts, pauses, limits, and one receipt for every row."""

from __future__ import annotations

import asyncio

import pytest

from cellule.effects.adapter import Failed, Retry
from cellule.effects.secrets import Secrets
from cellule.host.outbox import kind_queue, window
from cellule.host.outbox.rows import opening_rows, read_row, rows_range
from cellule.host.outbox.search import due_rows
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.testing import Fate, Fault, FaultPlan, FaultyEngine, SeededEntropy
from cellule.values.cbor import decode, encode
from cellule.values.link import Link
from tests.support.outbox import UNIVERSE, WORLD, OutboxWorld, check_left_nothing, opening
from tests.support.virtual_tests import in_virtual_time

SECOND = 1_000_000_000


async def one_row(bench):
    [found] = [page async for page in due_rows(bench.engine, 1 << 63)]
    [stored] = found.rows
    return stored.row


@in_virtual_time
async def test_an_offered_row_is_performed_and_leaves_one_receipt(bench, work_types):
    async with bench.pool(bench.worker()) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, [intent])
    receipt = found[intent]
    assert (receipt.status, receipt.attempts, receipt.exhausted, receipt.height) == ("ok", 1, False, 2)
    assert decode(receipt.value) == {"number": 1, "text": ""}
    assert receipt.by == bench.key.id


@in_virtual_time
async def test_a_row_that_nobody_announced_is_found_at_the_start(bench):
    await bench.world.open([opening(1)], bench.clock.now_ns())
    async with bench.pool(bench.worker()) as pool:
        await bench.attempts(1)
        await pool.wait_idle()
    await check_left_nothing(bench.world, [opening(1).intent])


@in_virtual_time
async def test_a_row_that_appears_later_is_found_by_a_search(bench):
    async with bench.pool(bench.worker(), search_s=2) as pool:
        await asyncio.sleep(1)
        await bench.world.open([opening(1)], bench.clock.now_ns())
        await asyncio.sleep(2)
        await pool.wait_idle()
        assert len(bench.performed) == 1


@in_virtual_time
async def test_every_attempt_has_the_same_key_and_its_number(bench, work_types):
    seen = []

    async def third_time(params, attempt):
        seen.append((attempt.number, attempt.key, attempt.world, attempt.universe, attempt.grant))
        if attempt.number < 3:
            raise Retry("not yet")
        return work_types[1](params.number)

    async with bench.pool(bench.worker(third_time)) as pool:
        [intent] = await bench.opened(pool, opening(1, key="order-1", grant={"name": "g"}))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, [intent])
    assert found[intent].attempts == 3
    assert seen == [(number, "order-1", WORLD, UNIVERSE, {"name": "g"}) for number in (1, 2, 3)]


@in_virtual_time
async def test_a_failure_moves_the_row_to_its_next_time_with_the_reason(bench, work_types):
    async def never(params, attempt):
        raise Retry("the bank is closed")

    async with bench.pool(bench.worker(never, backoff_s=100, backoff_max_s=400)) as pool:
        await bench.opened(pool, opening(1))
        before_ns = bench.clock.now_ns()
        await asyncio.sleep(10)
        row = await one_row(bench)
        assert (row.tried, row.error) == (1, "the bank is closed")
        assert 100 * SECOND <= row.delay_ns <= 300 * SECOND
        assert before_ns + 100 * SECOND <= row.ready_ns <= before_ns + 301 * SECOND
        [at] = await bench.engine.read([keys.effect_at(row.intent)])
        assert at == keys.effect(keys.shard_of(WORLD), 5, row.ready_ns, row.intent)
    assert len(bench.performed) == 1


@in_virtual_time
async def test_a_pause_survives_a_restart(bench):
    async def never(params, attempt):
        raise Retry("later", after_s=1_000)

    worker = bench.worker(never, attempts=5)
    async with bench.pool(worker) as pool:
        await bench.opened(pool, opening(1))
        await asyncio.sleep(1)
    row = await one_row(bench)
    async with bench.pool(worker):
        await asyncio.sleep(990)
        assert len(bench.performed) == 1
        await asyncio.sleep(20)
        assert len(bench.performed) == 2
    assert (await one_row(bench)).ready_ns >= row.ready_ns + 1_000 * SECOND


@in_virtual_time
async def test_the_other_side_can_ask_for_a_longer_pause_but_not_for_any(bench):
    async def never(params, attempt):
        raise Retry("later", after_s=10**12)

    async with bench.pool(bench.worker(never)) as pool:
        await bench.opened(pool, opening(1))
        await asyncio.sleep(1)
        assert (await one_row(bench)).ready_ns <= bench.clock.now_ns() + 86_400 * SECOND


@in_virtual_time
async def test_used_up_attempts_give_a_failed_receipt_that_says_so(bench):
    async def never(params, attempt):
        raise Retry(f"no {attempt.number}")

    async with bench.pool(bench.worker(never)) as pool:
        [intent] = await bench.opened(pool, opening(1, attempts=3))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.code, receipt.text) == ("failed", "effects.exhausted", "no 3")
    assert (receipt.attempts, receipt.exhausted) == (3, True)
    assert len(bench.performed) == 3


@in_virtual_time
async def test_an_attempt_that_takes_too_long_is_cancelled_and_in_the_end_a_timeout(bench):
    cancelled = []

    async def slow(params, attempt):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(attempt.number)
            raise

    async with bench.pool(bench.worker(slow)) as pool:
        [intent] = await bench.opened(pool, opening(1, attempts=2, timeout_ns=3 * SECOND))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.code, receipt.exhausted) == ("timeout", "effects.timeout", True)
    assert "3 s" in receipt.text
    assert cancelled == [1, 2]


@in_virtual_time
async def test_a_timeout_of_the_adapter_itself_is_an_ordinary_failure(bench):
    async def slow(params, attempt):
        raise TimeoutError("the bank")

    async with bench.pool(bench.worker(slow)) as pool:
        [intent] = await bench.opened(pool, opening(1, attempts=1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert receipt.status == "failed"
    assert receipt.text.startswith("TimeoutError: the bank (")


@in_virtual_time
async def test_a_failure_for_good_is_not_tried_again(bench):
    async def refused(params, attempt):
        raise Failed("bank.refused", "no money")

    async with bench.pool(bench.worker(refused)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert receipt[2:8] == ("failed", None, "bank.refused", "no money", 1, False)
    assert len(bench.performed) == 1


class _Mute(Exception):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize("error", [RuntimeError("x" * 10_000), _Mute(), ValueError("\ud800")])
@in_virtual_time
async def test_any_other_exception_is_tried_again_and_its_text_is_kept_short_and_clean(bench, error):
    async def broken(params, attempt):
        raise error

    async with bench.pool(bench.worker(broken)) as pool:
        [intent] = await bench.opened(pool, opening(1, attempts=2))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert receipt.exhausted
    assert receipt.text.startswith(type(error).__name__)
    assert len(receipt.text) <= 1_000


@in_virtual_time
async def test_params_that_do_not_fit_the_adapter_fail_without_an_attempt(bench):
    async with bench.pool(bench.worker()) as pool:
        [intent] = await bench.opened(pool, opening(1, params={"number": "one"}))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.code) == ("failed", "effects.params")
    assert "number" in receipt.text
    assert bench.performed == []


@in_virtual_time
async def test_a_receipt_that_does_not_fit_fails(bench, work_types):
    async def wrong(params, attempt):
        return {"number": 1} if params.number else work_types[1]("one")

    async with bench.pool(bench.worker(wrong)) as pool:
        intents = await bench.opened(pool, opening(0), opening(1))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    assert {receipt.code for receipt in found.values()} == {"effects.receipt"}
    assert {receipt.status for receipt in found.values()} == {"failed"}


@in_virtual_time
async def test_long_params_and_receipts_travel_as_links(bench, work_types):
    async def echo(params, attempt):
        return work_types[1](params.number, "y" * (40_000 if params.number else 1_100_000))

    cas = bench.cas(UNIVERSE)
    padded = opening(1)._replace(params=encode({"number": 1, "text": "x" * 40_000}))
    opened = opening_rows(UNIVERSE, WORLD, [padded, opening(0)], bench.clock.now_ns())
    [(cid, block)] = opened.blocks.items()
    assert opened.stored[0].row.params == Link(cid)
    assert len(opened.stored[0].value) < 1_000
    await cas.put(block)
    await bench.engine.commit(Batch(set=opened.set))
    work = bench.worker(echo)
    work.params = work_types[1]  # takes the long text too
    async with bench.pool(work) as pool:
        pool.offer(opened.stored)
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, [padded.intent, opening(0).intent])
    value = found[padded.intent].value
    assert isinstance(value, Link)
    assert decode(await cas.get(value.cid))["text"] == "y" * 40_000
    assert (found[opening(0).intent].status, found[opening(0).intent].code) == (
        "failed",
        "effects.receipt",
    )


@in_virtual_time
async def test_params_that_are_not_in_the_store_fail(bench):
    padded = opening(1)._replace(params=encode({"number": 1, "text": "x" * 40_000}))
    opened = opening_rows(UNIVERSE, WORLD, [padded], bench.clock.now_ns())
    await bench.engine.commit(Batch(set=opened.set))
    async with bench.pool(bench.worker()) as pool:
        pool.offer(opened.stored)
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [padded.intent]))[padded.intent]
    assert (receipt.status, receipt.code) == ("failed", "effects.params")


class _Shelf:
    async def get(self, name):
        return "hunter2-hunter2"

    def how_to_add(self, name):
        return ""


@in_virtual_time
async def test_no_secret_gets_into_rows_or_receipts(bench, work_types):
    async def leaky(params, attempt):
        value = await attempt.secrets.resolve("${secret:bank}")
        if params.number == 0:
            raise Retry(f"bank said {value}")
        if params.number == 1:
            raise RuntimeError(value)
        if params.number == 2:
            raise Failed("bank.no", value)
        return work_types[1](params.number, f"token {value}")

    async with bench.pool(bench.worker(leaky), secrets=Secrets(_Shelf())) as pool:
        intents = await bench.opened(pool, *(opening(number, attempts=2) for number in range(4)))
        await bench.attempts(4)
        await asyncio.sleep(0.01)
        rows = list(bench.disk.dump().values())
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    assert not [value for value in [*rows, *bench.disk.dump().values()] if b"hunter2" in value]
    assert decode(found[intents[3]].value)["text"] == "token <secret bank>"
    assert found[intents[0]].text == "bank said <secret bank>"


LONG = "eyJhbGciOi" * 20


class _LongShelf:
    async def get(self, name):
        return LONG

    def how_to_add(self, name):
        return ""


@pytest.mark.parametrize(
    "returned",
    [lambda _, value: value, lambda make, value: make(value), lambda make, value: make(1, {value: 2})],
    ids=["itself", "a number", "a key"],
)
@in_virtual_time
async def test_no_part_of_a_secret_gets_into_the_text_about_a_misfit(bench, work_types, returned):
    """The text quotes the first characters of what does not fit, and the rest was not there to be found."""

    async def leaky(params, attempt):
        return returned(work_types[1], str(await attempt.secrets.resolve("${secret:bank}")))

    async with bench.pool(bench.worker(leaky), secrets=Secrets(_LongShelf())) as pool:
        [intent] = await bench.opened(pool, opening(0))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.code) == ("failed", "effects.receipt")
    assert receipt.text.endswith("is no receipt of it: it holds a secret, and is not shown for that")
    assert not [value for value in bench.disk.dump().values() if b"eyJhb" in value]


def test_no_more_attempts_run_at_once_than_the_adapter_allows(play, work_types):
    async def main(bench):
        running, most = 0, 0

        async def counted(params, attempt):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1
            return work_types[1](params.number)

        async with bench.pool(bench.worker(counted, concurrency=3)) as pool:
            intents = await bench.opened(pool, *map(opening, range(20)))
            await pool.wait_idle()
        await check_left_nothing(bench.world, intents)
        assert most == 3

    play(main)


@in_virtual_time
async def test_attempts_begin_no_faster_than_the_rate(bench, work_types):
    begun = []

    async def noted(params, attempt):
        begun.append(bench.clock.monotonic_ns())
        return work_types[1](params.number)

    async with bench.pool(bench.worker(noted, rate_per_s=20)) as pool:
        intents = await bench.opened(pool, *map(opening, range(60)))
        await pool.wait_idle()
    await check_left_nothing(bench.world, intents)
    for first in begun:
        assert sum(first <= each < first + SECOND for each in begun) <= 22
    assert begun[-1] - begun[0] <= 3 * SECOND


@in_virtual_time
async def test_rows_go_by_priority_then_time(bench):
    rows = [
        opening(0, priority=9),
        opening(1, priority=5),
        opening(2, priority=0),
        opening(3, priority=5),
    ]
    for number, each in enumerate(rows):
        await bench.world.open([each], bench.clock.now_ns() - SECOND + number)
    async with bench.pool(bench.worker(concurrency=1)) as pool:
        await bench.attempts(4)
        await pool.wait_idle()
    assert [number for number, _ in bench.performed] == [2, 1, 3, 0]


@in_virtual_time
async def test_a_slow_kind_does_not_hold_up_another(bench, work_types, monkeypatch):
    monkeypatch.setattr(window, "WINDOW_ROWS", 4)

    async def stuck(params, attempt):
        await asyncio.sleep(5)
        return work_types[1](params.number)

    slow = bench.worker(stuck, kind="test.slow", concurrency=1)
    async with bench.pool(slow, bench.worker(kind="test.quick")) as pool:
        slow_intents = await bench.opened(pool, *(opening(n, "test.slow") for n in range(20)))
        quick = await bench.opened(pool, *(opening(100 + n, "test.quick") for n in range(3)))
        await asyncio.sleep(1)
        assert {number for number, _ in bench.performed} >= {100, 101, 102}
        await asyncio.sleep(110)
        await pool.wait_idle()
    await check_left_nothing(bench.world, [*slow_intents, *quick])


@in_virtual_time
async def test_what_does_not_fit_into_memory_is_performed_all_the_same(bench, monkeypatch):
    monkeypatch.setattr(window, "WINDOW_ROWS", 10)
    monkeypatch.setattr("cellule.host.outbox.search.SCAN_PAGE", 7)
    async with bench.pool(bench.worker(concurrency=4)) as pool:
        intents = await bench.opened(pool, *(opening(n, priority=n % 10) for n in range(100)))
        await bench.attempts(100)
        await pool.wait_idle()
    await check_left_nothing(bench.world, intents)
    assert len(bench.performed) == 100


@in_virtual_time
async def test_rows_that_wait_for_a_far_retry_leave_room_for_others(bench, work_types, monkeypatch):
    monkeypatch.setattr(window, "WINDOW_ROWS", 10)

    async def half(params, attempt):
        if params.number < 40 and attempt.number == 1:
            raise Retry("later", after_s=3_600)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(half)) as pool:
        intents = await bench.opened(pool, *map(opening, range(50)))
        await asyncio.sleep(60)
        assert len({number for number, _ in bench.performed if number >= 40}) == 10
        await asyncio.sleep(3_700)
        await pool.wait_idle()
    await check_left_nothing(bench.world, intents)


@in_virtual_time
async def test_a_kind_without_adapter_waits_until_one_appears(bench):
    async with bench.pool(bench.worker()) as pool:
        [intent] = await bench.opened(pool, opening(1, "other.kind"))
        await asyncio.sleep(30)
        assert pool.missing == {"other.kind": 1}
        assert bench.performed == []
        pool.add(bench.worker(kind="other.kind"))
        await asyncio.sleep(1)
        await pool.wait_idle()
        assert pool.missing == {}
    await check_left_nothing(bench.world, [intent])


@in_virtual_time
async def test_an_unreadable_row_is_told_and_stops_nothing(bench):
    bad = keys.effect(keys.shard_of(WORLD), 5, 1, b"x" * 32)
    await bench.engine.commit(Batch(set={bad: b"\xa0"}))
    async with bench.pool(bench.worker()) as pool:
        await bench.opened(pool, opening(1))
        await asyncio.sleep(1)
        assert pool.unreadable == [bad]
        assert len(bench.performed) == 1


@in_virtual_time
async def test_receipts_that_finish_together_share_a_batch_and_are_announced(bench):
    arrived = []
    options = {"arrived": lambda *told: arrived.append(told)}
    other = OutboxWorld(bench.engine, bench.key, UNIVERSE, type(WORLD)(int=3))
    async with bench.pool(bench.worker(concurrency=100), **options) as pool:
        intents = await bench.opened(pool, *map(opening, range(50)))
        made = await other.open([opening(99)], bench.clock.now_ns())
        pool.offer(made.stored)
        await pool.wait_idle()
    assert {(universe, world) for universe, world, *_ in arrived} == {
        (UNIVERSE, WORLD),
        (UNIVERSE, other.id),
    }
    mine = [rows for _, world, rows, _ in arrived if world == WORLD]
    assert len(mine) < 10
    told = {key: item for rows in mine for key, item in rows}
    stored = {key: value for key, value in bench.disk.dump().items() if key in told}
    assert {key: item.intent for key, item in told.items()} == {
        key: decode(value)["intent"] for key, value in stored.items()
    }
    assert len(told) == 50
    assert set(intents) == {receipt.intent for receipt in await bench.world.receipts()}
    assert [receipt.intent for receipt in await other.receipts()] == [opening(99).intent]


@in_virtual_time
async def test_a_found_row_that_vanished_before_its_turn_is_not_performed(bench, work_types):
    async def slow(params, attempt):
        await asyncio.sleep(5)
        return work_types[1](params.number)

    opened = await bench.world.open([opening(0, priority=0), opening(1)], bench.clock.now_ns())
    async with bench.pool(bench.worker(slow, concurrency=1)) as pool:
        await bench.attempts(1)
        await bench.engine.commit(Batch(clear=[opened.stored[1].at, opened.stored[1].place]))
        await pool.wait_idle()
    assert [number for number, _ in bench.performed] == [0]


@in_virtual_time
async def test_a_row_without_its_place_is_performed(bench):
    async with bench.pool(bench.worker()) as pool:
        opened = await bench.world.open([opening(1)], bench.clock.now_ns())
        await bench.engine.commit(Batch(clear=[opened.stored[0].place]))
        pool.search()
        await bench.attempts(1)
        await pool.wait_idle()
    await check_left_nothing(bench.world, [opening(1).intent])


@in_virtual_time
async def test_a_row_is_taken_in_once_however_often_it_is_offered(bench):
    async with bench.pool(bench.worker()) as pool:
        made = await bench.world.open([opening(1)], bench.clock.now_ns())
        for _ in range(3):
            pool.offer(made.stored)
        await pool.wait_idle()
    assert len(bench.performed) == 1


@in_virtual_time
async def test_a_close_waits_for_running_attempts_and_writes_what_they_gave(bench, work_types):
    async def slow(params, attempt):
        await asyncio.sleep(params.number)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(slow), grace_s=5) as pool:
        intents = await bench.opened(pool, opening(3), opening(8))
        await bench.attempts(2)
    assert [receipt.intent for receipt in await bench.world.receipts()] == intents[:1]
    async with bench.pool(bench.worker(slow)) as pool:
        await asyncio.sleep(9)
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    assert found[intents[1]].attempts == 1
    assert [key for number, key in bench.performed if number == 8] == [opening(8).key] * 2


@in_virtual_time
async def test_adapters_are_closed_with_the_pool(bench):
    closed = []
    work = bench.worker()

    class Resource(type(work)):
        async def close(self):
            closed.append(self.kind)

    async with bench.pool(Resource(work.kind, work.function, work.limits)):
        assert closed == []
    assert closed == ["test.work"]


@in_virtual_time
async def test_a_lane_forgets_withdrawn_rows(bench):
    async with bench.pool(bench.worker()) as pool:
        queue = pool._window.queues["test.work"]
        stored = opening_rows(UNIVERSE, WORLD, map(opening, range(1_000)), 1 << 62).stored
        entries = [kind_queue.Entry(each, queue) for each in stored]
        for entry in entries:
            queue.push(entry)
        for entry in entries:
            queue.withdraw(entry)
        assert len(queue._later) <= 65


@in_virtual_time
async def test_a_moved_row_reads_back_as_it_was_written(bench):
    async def never(params, attempt):
        raise Retry("no")

    async with bench.pool(bench.worker(never, backoff_s=50)) as pool:
        await bench.opened(pool, opening(1))
        await asyncio.sleep(1)
        [(at, value)] = (await bench.engine.scan(*rows_range(), limit=10)).items
        row = read_row(at, value).row
        assert row == (await one_row(bench))
        assert row.ready_ns > bench.clock.now_ns()
        assert row.kind == "test.work"


@in_virtual_time
async def test_a_pool_over_a_store_that_is_away_says_so_and_goes_on(bench):
    away = {number: Fault(Fate.UNAVAILABLE) for number in range(1, 40)}
    engine = FaultyEngine(bench.engine, FaultPlan(read=away, scan=away), entropy=SeededEntropy(1))
    async with bench.pool(bench.worker(), engine=engine, stall_s=1) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await asyncio.sleep(10)
        assert pool.trouble.code == "testing.unavailable"
        await asyncio.sleep(600)
        assert pool.trouble is None
    await check_left_nothing(bench.world, [intent])


@in_virtual_time
async def test_a_first_attempt_waits_for_no_clock(bench):
    async with bench.pool(bench.worker()) as pool:
        made = await bench.world.open([opening(1)], bench.clock.now_ns())
        bench.clock.jump(-3_600 * SECOND)
        pool.offer(made.stored)
        await pool.wait_idle()
    await check_left_nothing(bench.world, [opening(1).intent])


@pytest.mark.parametrize("jump_s", [-86_400 * 3_652, -3_600, 3_600, 86_400 * 3_652])
@in_virtual_time
async def test_a_pause_between_attempts_lasts_as_long_wherever_the_wall_clock_goes(bench, jump_s):
    """A clock that was set back by an hour made every pause an hour longer."""
    begun = []

    async def fails(params, attempt):
        begun.append(bench.clock.monotonic_ns())
        raise Retry("later", after_s=100)

    async with bench.pool(bench.worker(fails)) as pool:
        await bench.opened(pool, opening(1, attempts=3))
        await bench.attempts(1)
        await asyncio.sleep(1)
        bench.clock.jump(jump_s * SECOND)
        await bench.attempts(2)
    assert (begun[1] - begun[0]) // SECOND == 100


@in_virtual_time
async def test_a_clock_that_is_years_ahead_for_a_moment_ends_and_delays_nothing(bench, work_types):
    """Its attempt was the last, for its deadline had passed; or the next was ten years later."""
    ten_years, tried = 3_652 * 86_400 * SECOND, []

    async def fails_twice(params, attempt):
        tried.append(bench.clock.monotonic_ns())
        if len(tried) == 1:
            bench.clock.jump(ten_years)
        if len(tried) < 3:
            raise Retry("down", after_s=10)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(fails_twice)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await bench.attempts(2)
        await asyncio.sleep(1)
        bench.clock.jump(-ten_years)
    async with bench.pool(bench.worker(fails_twice)) as pool:
        await bench.attempts(3)
        await pool.wait_idle()
    assert [(later - tried[0]) // SECOND for later in tried] == [0, 10, 20]
    assert (await check_left_nothing(bench.world, [intent]))[intent].status == "ok"


def test_two_pools_over_one_store_leave_one_receipt(play, work_types):
    async def main(bench):
        async def brief(params, attempt):
            await asyncio.sleep(bench.entropy.below(100) / 1_000)
            if bench.entropy.chance(0.3):
                raise Retry("again")
            return work_types[1](params.number)

        opened = await bench.world.open([opening(n, attempts=50) for n in range(30)], bench.clock.now_ns())
        worker = bench.worker(brief)
        async with bench.pool(worker, search_s=0.5) as one, bench.pool(worker, search_s=0.5) as two:
            one.offer(opened.stored[:20])
            two.offer(opened.stored[10:])
            await asyncio.sleep(60)
            await one.wait_idle()
            await two.wait_idle()
        await check_left_nothing(bench.world, [each.row.intent for each in opened.stored])

    for seed in range(10):
        play(main, seed)
