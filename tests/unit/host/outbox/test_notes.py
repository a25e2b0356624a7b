"""Progress notes: the newest are kept, readers follow until the end, nothing waits for a reader."""

from __future__ import annotations

import asyncio

from cellule.host.outbox.limits import NOTES_KEPT, NOTES_WAITING_MAX
from cellule.host.outbox.notes import Notes
from tests.support.outbox import opening
from tests.support.virtual_tests import in_virtual_time


@in_virtual_time
async def test_a_reader_sees_notes_until_the_intent_is_settled(bench, work_types):
    async def talks(params, attempt):
        for number in range(3):
            attempt.note({"done": number})
            await asyncio.sleep(1)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(talks)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        early = [note async for note in pool.notes(intent)]
        assert early == [{"done": 0}, {"done": 1}, {"done": 2}]
        assert [note async for note in pool.notes(intent)] == []


@in_virtual_time
async def test_who_comes_late_gets_the_newest_notes_first(bench, work_types):
    async def talks(params, attempt):
        for number in range(NOTES_KEPT + 10):
            attempt.note(number)
        await asyncio.sleep(5)
        attempt.note("end")
        return work_types[1](params.number)

    async with bench.pool(bench.worker(talks)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await asyncio.sleep(2)
        assert [note async for note in pool.notes(intent)] == [*range(10, NOTES_KEPT + 10), "end"]


@in_virtual_time
async def test_notes_of_a_row_that_is_not_in_memory_yet_are_waited_for(bench, work_types):
    async def talks(params, attempt):
        attempt.note("here")
        return work_types[1](params.number)

    async with bench.pool(bench.worker(talks), search_s=3) as pool:
        await asyncio.sleep(1)
        await bench.world.open([opening(1)], bench.clock.now_ns())
        assert [note async for note in pool.notes(opening(1).intent)] == ["here"]


@in_virtual_time
async def test_readers_end_with_the_pool(bench):
    async def slow(params, attempt):
        attempt.note("begun")
        await asyncio.sleep(1_000)

    async def read(pool, intent):
        return [note async for note in pool.notes(intent)]

    async with bench.pool(bench.worker(slow), grace_s=1) as pool:
        [intent] = await bench.opened(pool, opening(1))
        reading = asyncio.create_task(read(pool, intent))
        await bench.attempts(1)
        await asyncio.sleep(0.1)
    assert await reading == ["begun"]


@in_virtual_time
async def test_what_an_attempt_tells_behind_its_end_is_not_kept(bench, work_types):
    """Nobody ended such notes: those of every thread that was left behind stayed for good."""
    attempts = []

    async def talks(params, attempt):
        attempts.append(attempt)
        return work_types[1](params.number)

    async with bench.pool(bench.worker(talks)) as pool:
        [intent] = await bench.opened(pool, opening(1))
        await pool.wait_idle()
        attempts[0].note("late")
        assert pool._notes.newest(intent) == []


async def test_a_slow_reader_loses_the_oldest_notes():
    notes = Notes({b"i"})
    stream = notes.follow(b"i")
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    for number in range(NOTES_WAITING_MAX + 5):
        notes.add(b"i", number)
    notes.end(b"i")
    assert await first == 5
    assert [note async for note in stream] == list(range(6, NOTES_WAITING_MAX + 5))
    assert notes.newest(b"i") == []


async def test_nothing_is_kept_of_a_reader_that_left():
    notes = Notes({b"i"})
    stream = notes.follow(b"i")
    notes.add(b"i", 1)
    assert await anext(stream) == 1
    await stream.aclose()
    notes.end(b"i")
    assert (notes._newest, notes._readers) == ({}, {})
