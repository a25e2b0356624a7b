"""Attempts that report progress: silence ends them, and the next attempt finds the last report."""

from __future__ import annotations

import asyncio
import threading

from cellule.effects.adapter import Adapters, Attempt, Retry, adapter
from cellule.host.outbox.pool import Pool
from cellule.host.outbox.rows import read_row
from cellule.sources import SystemClock
from cellule.store import keys
from cellule.values.cbor import decode
from tests.support.outbox import check_left_nothing, opening
from tests.support.virtual_tests import in_virtual_time
from tests.unit.host.outbox.conftest import Bench, Work, Worked


@in_virtual_time
async def test_the_next_attempt_finds_the_last_progress_also_after_a_restart(bench, work_types):
    found = []

    async def steps(params, attempt):
        found.append(attempt.last_progress)
        if attempt.number < 3:
            attempt.progress({"page": attempt.number * 10})
            raise Retry("cut off", after_s=10)
        return work_types[1](params.number)

    worker = bench.worker(steps)
    async with bench.pool(worker) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await bench.attempts(1)
        await asyncio.sleep(1)
    async with bench.pool(worker) as pool:
        await bench.attempts(3)
        await pool.wait_idle()
    assert found == [None, {"page": 10}, {"page": 20}]
    await check_left_nothing(bench.world, [intent])


@in_virtual_time
async def test_silence_ends_an_attempt_and_progress_keeps_it_alive(bench, work_types):
    async def works(params, attempt):
        for page in range(20):
            await asyncio.sleep(2 if attempt.number > 1 or page < 5 else 60)
            attempt.progress(page)
        return work_types[1](params.number, str(attempt.last_progress))

    async with bench.pool(bench.worker(works, timeout_s=1_000, progress_s=5)) as pool:
        silent = opening(1, timeout_ns=0)
        [intent] = await bench.opened(pool, silent)
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.attempts) == ("ok", 2)


@in_virtual_time
async def test_the_reason_says_that_there_was_no_progress(bench):
    async def hangs(params, attempt):
        await asyncio.Event().wait()

    async with bench.pool(bench.worker(hangs, progress_s=5)) as pool:
        [intent] = await bench.opened(pool, opening(1, attempts=1))
        await pool.wait_idle()
    receipt = (await check_left_nothing(bench.world, [intent]))[intent]
    assert (receipt.status, receipt.text) == ("timeout", "it reported no progress for 5 s")


@in_virtual_time
async def test_progress_that_is_too_long_fails_the_effect(bench):
    async def talks(params, attempt):
        attempt.progress("x" * 10_000)

    async with bench.pool(bench.worker(talks)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
    assert (await check_left_nothing(bench.world, [intent]))[intent].code == "effects.progress"


# Plain functions, on threads


async def performed(function, *openings, **limits):
    bench = Bench(SystemClock())
    pool = Pool(
        bench.engine, Adapters([adapter("test.work", **limits)(function)]), bench.key, bench.cas,
        bench.clock, bench.entropy,
    )  # fmt: skip
    async with pool.running():
        intents = await bench.opened(pool, *openings)
        await pool.wait_idle()
    found = await check_left_nothing(bench.world, intents)
    return [found[intent] for intent in intents]


async def test_a_plain_function_runs_on_a_thread_and_keeps_nobody_waiting():
    gate, names = threading.Barrier(3), set()

    def blocks(params: Work, attempt: Attempt) -> Worked:
        names.add(threading.current_thread().name)
        attempt.note("here")
        attempt.progress(1)
        assert attempt.wait(attempt.secrets.resolve("plain")) == "plain"
        gate.wait()  # all three at once
        return Worked(params.number)

    found = await performed(blocks, *map(opening, range(3)))
    assert {each.status for each in found} == {"ok"}
    assert names == {"cellule-test.work"}


async def test_a_plain_function_that_exits_fails_its_attempt_with_the_place():
    def exits(params: Work) -> Worked:
        raise SystemExit("enough")

    [receipt] = await performed(exits, opening(1, attempts=2), backoff_s=0, backoff_max_s=0)
    assert (receipt.status, receipt.attempts) == ("failed", 2)
    assert receipt.text.startswith("SystemExit: enough (")
    assert "test_progress.py" in receipt.text


async def test_a_plain_function_that_takes_too_long_is_not_waited_for():
    gate = threading.Event()

    def hangs(params: Work) -> Worked:
        if params.number == 1:
            gate.wait()
        return Worked(params.number)

    late, other = await performed(
        hangs, opening(1, attempts=1, timeout_ns=10_000_000), opening(2), concurrency=2
    )
    gate.set()
    assert (late.status, late.text) == ("timeout", "it took longer than 0.01 s")
    assert other.status == "ok"


# Attempts that are cut off


@in_virtual_time
async def test_an_attempt_that_a_crash_cuts_off_hands_its_progress_on(bench, work_types):
    """Progress was kept only when an attempt failed: after a crash the work began from its start."""
    found = []

    async def pages(params, attempt):
        found.append(attempt.last_progress)
        for page in range(attempt.last_progress or 0, 5):
            if page == 3 and len(found) == 1:
                await asyncio.Event().wait()
            await asyncio.sleep(2)
            attempt.progress(page + 1)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(pages, timeout_s=1_000), grace_s=0) as dying:
        [intent] = await bench.opened(dying, opening(1, timeout_ns=0))
        await asyncio.sleep(60)
        stored = await _progress(bench, intent)
    assert stored == 3
    async with bench.pool(bench.worker(pages, timeout_s=1_000)) as pool:
        await bench.attempts(2)
        await pool.wait_idle()
    assert found == [None, 3]
    assert (await check_left_nothing(bench.world, [intent]))[intent].attempts == 1


@in_virtual_time
async def test_an_attempt_that_the_end_of_its_node_cuts_off_hands_its_last_progress_on(bench, work_types):
    found = []

    async def pages(params, attempt):
        found.append(attempt.last_progress)
        attempt.progress("half")
        await asyncio.sleep(0 if attempt.last_progress else 1_000)
        return work_types[1](params.number)

    worker = bench.worker(pages)
    async with bench.pool(worker, grace_s=0) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await bench.attempts(1)
    async with bench.pool(worker) as pool:
        await bench.attempts(2)
        await pool.wait_idle()
    assert found == [None, "half"]
    await check_left_nothing(bench.world, [intent])


@in_virtual_time
async def test_progress_is_written_once_a_second_however_often_it_is_reported(bench, work_types):
    writes = []

    async def talks(params, attempt):
        for page in range(1_000):
            attempt.progress(page)
            await asyncio.sleep(0.01)
        return work_types[1](params.number)

    counting = _counted(bench.engine, writes)
    async with bench.pool(bench.worker(talks, timeout_s=1_000), engine=counting) as pool:
        [intent] = await bench.opened(pool, opening(1, timeout_ns=0))
        await pool.wait_idle()
    assert len(writes) == 10  # nine or ten reports and the receipt
    await check_left_nothing(bench.world, [intent])


def test_an_intent_that_its_world_closes_while_progress_is_written_leaves_nothing(play):
    async def main(bench):
        async def hangs(params, attempt):
            attempt.progress("far")
            await asyncio.Event().wait()

        async with bench.pool(bench.worker(hangs)) as pool:
            [intent] = await bench.opened(pool, opening(1))
            await bench.attempts(1)
            await asyncio.sleep(0.9999)
            await bench.world.close([intent])
            pool.closed([intent])
            await pool.wait_idle()
        await check_left_nothing(bench.world, [])

    for seed in range(20):
        play(main, seed)


def _counted(engine, writes):
    class Counted:
        def __getattr__(self, name):
            return getattr(engine, name)

        async def commit(self, batch):
            writes.append(batch)
            return await engine.commit(batch)

    return Counted()


async def _progress(bench, intent):
    [at] = await bench.engine.read([keys.effect_at(intent)])
    [value] = await bench.engine.read([at])
    return decode(read_row(at, value).row.progress)
