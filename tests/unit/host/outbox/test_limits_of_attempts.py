"""How long attempts go on, which errors end them, and how many run at once for each value of a field."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from cellule.effects.adapter import AdapterLimits, Retry
from cellule.errors import Rejected
from cellule.host.outbox import key_limits, window
from cellule.host.outbox.key_limits import value_at
from tests.support.outbox import check_left_nothing, opening
from tests.support.virtual_tests import in_virtual_time

SECOND = 1_000_000_000
HOUR = 3_600


class Work(msgspec.Struct, frozen=True):
    number: int
    tenant: str = ""


class Gone(Exception):
    pass


def undeclared(number, **fields):
    """An intent whose declaration says nothing of its attempts."""
    return opening(number, attempts=0, timeout_ns=0, **fields)


@in_virtual_time
async def test_by_default_an_outage_of_hours_ends_well(bench, work_types):
    """Five attempts ended after some seconds, and the effect was a dead letter."""

    async def outage(params, attempt):
        if bench.clock.now_ns() < begun_ns + 20 * HOUR * SECOND:
            raise Retry("the bank is closed")
        return work_types[1](params.number)

    begun_ns = bench.clock.now_ns()
    async with bench.pool(bench.worker(outage)) as pool:
        [intent] = await bench.opened(pool, undeclared(1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert receipt.status == "ok"
    assert 20 * 60 <= receipt.attempts <= 20 * HOUR  # a pause is at most a minute, and not always short
    assert bench.clock.now_ns() <= begun_ns + (20 * HOUR + 60) * SECOND


@in_virtual_time
async def test_an_attempt_that_fails_after_the_deadline_is_the_last(bench):
    async def never(params, attempt):
        raise Retry("no")

    begun_ns = bench.clock.now_ns()
    async with bench.pool(bench.worker(never, deadline_s=HOUR)) as pool:
        intents = await bench.opened(pool, undeclared(1), undeclared(2)._replace(deadline_ns=60 * SECOND))
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    assert {each.exhausted for each in found.values()} == {True}
    assert found[intents[1]].attempts < found[intents[0]].attempts
    assert HOUR * SECOND <= bench.clock.now_ns() - begun_ns <= (HOUR + 61) * SECOND


@in_virtual_time
async def test_the_deadline_of_an_adapter_counts_from_the_request_also_after_restarts(bench):
    async def never(params, attempt):
        raise Retry("no")

    worker = bench.worker(never, deadline_s=100, backoff_s=10, backoff_max_s=10)
    begun_ns = bench.clock.now_ns()
    [intent] = [undeclared(1).intent]
    await bench.world.open([undeclared(1)], begun_ns)
    for _ in range(20):
        async with bench.pool(worker):
            await asyncio.sleep(9)
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert 9 <= receipt.attempts <= 12


@in_virtual_time
async def test_an_effect_that_was_overslept_has_one_more_attempt(bench, work_types):
    async def once(params, attempt):
        if attempt.number == 1:
            raise Retry("no")
        return work_types[1](params.number)

    worker = bench.worker(once, deadline_s=100)
    async with bench.pool(worker) as pool:
        [intent] = await bench.opened(pool, undeclared(1))
        await bench.attempts(1)
    await asyncio.sleep(1_000)
    async with bench.pool(worker) as pool:
        await bench.attempts(2)
        await pool.wait_idle()
    assert (await check_left_nothing(bench.world, [intent]))[intent].status == "ok"


@in_virtual_time
async def test_pauses_of_a_request_go_before_those_of_its_adapter(bench):
    async def never(params, attempt):
        raise Retry("no")

    quick = undeclared(1)._replace(backoff_ns=SECOND, backoff_max_ns=SECOND)
    async with bench.pool(bench.worker(never, backoff_s=1_000, backoff_max_s=1_000)) as pool:
        await bench.opened(pool, quick, undeclared(2))
        await asyncio.sleep(10)
    counts = Counter(number for number, _ in bench.performed)
    assert (counts[1] >= 9, counts[2]) == (True, 1)


@in_virtual_time
async def test_errors_that_would_come_again_end_the_effect_at_once(bench):
    async def broken(params, attempt):
        raise Gone("no such account")

    async with bench.pool(bench.worker(broken, no_retry=(Gone,))) as pool:
        [intent] = await bench.opened(pool, undeclared(1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.attempts, receipt.exhausted) == ("failed", 1, True)
    assert receipt.text.startswith("Gone: no such account (")


@in_virtual_time
async def test_the_timeout_is_the_adapters_where_nobody_says_another(bench):
    async def slow(params, attempt):
        assert attempt.timeout_s == 7
        await asyncio.Event().wait()

    async with bench.pool(bench.worker(slow, timeout_s=7, attempts=1)) as pool:
        [intent] = await bench.opened(pool, undeclared(1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.text) == ("timeout", "it took longer than 7 s")


# By the value of a field


def of_tenant(number, tenant):
    return opening(number, params={"number": number, "tenant": tenant})


def test_so_many_run_at_once_for_each_value_and_nobody_waits_for_another(play, work_types):
    async def main(bench):
        running, most = Counter(), Counter()

        async def work(params, attempt):
            running[params.tenant] += 1
            most[params.tenant] = max(most[params.tenant], running[params.tenant])
            await asyncio.sleep(1 if params.tenant == "big" else 0.1)
            running[params.tenant] -= 1
            return work_types[1](params.number)

        adapter = bench.worker(work, concurrency=8, concurrency_by={"tenant": 2})
        adapter.params = Work
        async with bench.pool(adapter) as pool:
            tenants = ["big"] * 20 + ["small", "other"] * 5
            intents = await bench.opened(pool, *(of_tenant(at, name) for at, name in enumerate(tenants)))
            await asyncio.sleep(1)
            done = {number for number, _ in bench.performed}
            assert set(range(20, 30)) <= done  # the small ones did not wait behind the big one
            await pool.wait_idle()
        assert most == {"big": 2, "small": 2, "other": 2}
        found = await check_left_nothing(bench.world, intents)
        assert {each.status for each in found.values()} == {"ok"}

    for seed in range(5):
        play(main, seed)


@in_virtual_time
async def test_so_many_begin_in_a_second_for_each_value(bench):
    begun = {"big": [], "small": []}

    async def work(params, attempt):
        begun[params.tenant].append(bench.clock.monotonic_ns())
        raise Retry("once is enough", after_s=10_000)

    adapter = bench.worker(work, rate_by={"tenant": 2.0})
    adapter.params = Work
    async with bench.pool(adapter) as pool:
        tenants = ["big"] * 10 + ["small"] * 4
        await bench.opened(pool, *(of_tenant(at, name) for at, name in enumerate(tenants)))
        await asyncio.sleep(60)
    for tenant, count in (("big", 10), ("small", 4)):
        times = begun[tenant]
        assert len(times) == count
        assert times[-1] - times[0] >= (count - 2) * SECOND // 2


@pytest.mark.parametrize(
    "limits",
    [
        {"deadline_s": 0},
        {"no_retry": ValueError},
        {"no_retry": ("ValueError",)},
        {"concurrency_by": {"tenant": 0}},
        {"concurrency_by": {"tenant": 2, "user": 3}},
        {"rate_by": {"tenant": -1.0}},
        {"rate_by": "tenant"},
        {"progress_s": 0},
    ],
)
def test_limits_that_cannot_be_are_refused(limits):
    with pytest.raises(Rejected) as caught:
        AdapterLimits(**limits)
    assert caught.value.code == "effects.limit"
    assert next(iter(limits)) in str(caught.value)


# More rows of one value than the window holds


@pytest.mark.parametrize("limits", [{"concurrency_by": {"tenant": 1}}, {"rate_by": {"tenant": 0.5}}])
@in_virtual_time
async def test_a_value_with_more_rows_than_memory_holds_keeps_nobody_waiting(
    bench, work_types, monkeypatch, limits
):
    """Its rows stood aside in the window, which was full by them: the others stayed in the store."""
    monkeypatch.setattr(window, "WINDOW_ROWS", 40)
    monkeypatch.setattr(key_limits, "GIVE_WAY_ROWS", 4)
    small = range(200, 230)

    async def work(params, attempt):
        await asyncio.sleep(2 if params.tenant == "big" else 0.01)
        return work_types[1](params.number)

    adapter = bench.worker(work, concurrency=8, **limits)
    adapter.params = Work
    async with bench.pool(adapter) as pool:
        big = await bench.opened(pool, *(of_tenant(n, "big") for n in range(200)))
        await asyncio.sleep(1)
        told = await bench.opened(pool, *(of_tenant(n, f"small {n % 5}") for n in small[:15]))
        rows = [of_tenant(n, f"small {n % 5}") for n in small[15:]]
        await bench.world.open(rows, bench.clock.now_ns())  # nobody tells of these
        await asyncio.sleep(30)
        assert set(small) <= {number for number, _ in bench.performed}
        assert len(bench.performed) < 60  # the big one is far from its end
        await asyncio.sleep(500)
        await pool.wait_idle()
    await check_left_nothing(bench.world, [*big, *told, *(row.intent for row in rows)])
    assert len(bench.performed) == 230  # once each, also those that gave way


@in_virtual_time
async def test_an_attempt_costs_the_same_however_many_rows_stand_aside(bench, work_types, monkeypatch):
    """Every row aside was asked again whenever one of its value ended."""
    looked = []
    monkeypatch.setattr(key_limits, "value_at", lambda row, path: looked.append(path) or value_at(row, path))
    looked.clear()
    adapter = bench.worker(concurrency_by={"tenant": 2}, rate_by={"number": 1_000.0})
    adapter.params = Work
    async with bench.pool(adapter) as pool:
        intents = await bench.opened(pool, *(of_tenant(n, "big") for n in range(500)))
        await pool.wait_idle()
    await check_left_nothing(bench.world, intents)
    assert len(looked) < 10 * len(intents)


@pytest.mark.parametrize("last", [10, 200], ids=["some", "most of them"])
def test_rows_that_were_withdrawn_aside_stop_nobody_behind_them(play, work_types, last):
    async def main(bench):
        release = asyncio.Event()

        async def work(params, attempt):
            await release.wait()
            return work_types[1](params.number)

        adapter = bench.worker(work, concurrency_by={"tenant": 1})
        adapter.params = Work
        async with bench.pool(adapter) as pool:
            intents = await bench.opened(pool, *(of_tenant(n, "big") for n in range(300)))
            await asyncio.sleep(1)
            await bench.world.close(intents[1:last])
            pool.closed(intents[1:last])
            release.set()
            await pool.wait_idle()
        assert [number for number, _ in bench.performed] == [0, *range(last, 300)]
        await check_left_nothing(bench.world, [intents[0], *intents[last:]])

    for seed in range(3):
        play(main, seed)


@in_virtual_time
async def test_what_a_row_was_offered_is_for_the_next_one_when_it_is_withdrawn(bench, work_types):
    """It waited behind rows of a higher priority, and nobody else was offered its place."""
    gates = {tenant: asyncio.Event() for tenant in ("big", "small 1", "small 2")}

    async def work(params, attempt):
        await gates[params.tenant].wait()
        return work_types[1](params.number)

    adapter = bench.worker(work, concurrency=2, concurrency_by={"tenant": 1})
    adapter.params = Work
    async with bench.pool(adapter) as pool:
        big = await bench.opened(pool, *(of_tenant(n, "big") for n in range(4)))
        await asyncio.sleep(1)  # one runs, three stand aside
        small = [of_tenant(3 + n, f"small {n}")._replace(priority=0) for n in (1, 2)]
        await bench.opened(pool, *small)
        await asyncio.sleep(1)
        gates["big"].set()
        await asyncio.sleep(1)  # the second of the small ones has the place of the first of the big ones
        assert [number for number, _ in bench.performed] == [0, 4, 5]
        await bench.world.close([big[1]])
        pool.closed([big[1]])
        for gate in gates.values():
            gate.set()
        await pool.wait_idle()
    assert [number for number, _ in bench.performed] == [0, 4, 5, 2, 3]


@in_virtual_time
async def test_long_rows_of_one_kind_leave_room_for_the_others(bench, work_types, monkeypatch):
    """All kinds shared one limit of bytes: while one waited out an outage, no other was performed."""
    monkeypatch.setattr(window, "WINDOW_BYTES", 20_000)

    async def outage(params, attempt):
        raise Retry("closed", after_s=4)  # soon enough to be kept in memory

    down, up = bench.worker(outage, kind="test.down"), bench.worker(kind="test.up")
    for each in (down, up):
        each.params = Work
    async with bench.pool(down, up) as pool:
        long = [of_tenant(n, "x" * 1_000)._replace(kind="test.down") for n in range(30)]
        await bench.opened(pool, *long)
        await asyncio.sleep(10)
        await bench.opened(pool, *(of_tenant(100 + n, "")._replace(kind="test.up") for n in range(5)))
        await asyncio.sleep(1)
        assert {number for number, _ in bench.performed} >= set(range(100, 105))
