"""What the memory engine promises beyond the contract of engines."""

from __future__ import annotations

import asyncio
import random

import pytest

from cellule.errors import Conflict, Corrupted
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryDisk, MemoryEngine

A, B = b"\x02a\0", b"\x02b\0"
QUEUE = b"\x02q\0"


@pytest.fixture
def disk():
    return MemoryDisk()


@pytest.fixture
def engine(disk):
    return MemoryEngine(disk)


async def test_stamps_count_from_one_on_each_disk(engine):
    first = await engine.commit(Batch(ordered=[(QUEUE, b"a"), (QUEUE, b"b")]))
    second = await engine.commit(Batch(ordered=[(QUEUE, b"c")]))
    assert [stamp.hex() for stamp in first + second] == [
        "000000000000000000010000",
        "000000000000000000010001",
        "000000000000000000020000",
    ]


async def test_a_stamp_taken_early_and_committed_late_shows_up_in_front(disk, engine):
    early = disk.next_stamp() + bytes(2)
    [later] = await engine.commit(Batch(ordered=[(QUEUE, b"second")]))
    await engine.commit(Batch(set={QUEUE + early: b"first"}))
    assert early < later
    page = await engine.scan(QUEUE, QUEUE + b"\xff", limit=10)
    assert [value for _, value in page.items] == [b"first", b"second"]


async def test_a_fork_goes_its_own_way(disk, engine):
    await engine.commit(Batch(set={A: b"1"}, ordered=[(QUEUE, b"x")]))
    fork = disk.fork()
    await engine.commit(Batch(set={A: b"2"}))
    other = MemoryEngine(fork)
    [stamp] = await other.commit(Batch(expect={A: b"1"}, set={B: b"3"}, ordered=[(QUEUE, b"y")]))
    assert await engine.read([A, B]) == [b"2", None]
    assert await other.read([A, B]) == [b"1", b"3"]
    assert len(fork.dump()) == 4
    assert stamp[:10] == (2).to_bytes(10, "big")


async def test_a_dump_has_the_values_in_key_order(disk, engine):
    await engine.commit(Batch(set={B: b"2", A: b"1"}, add={b"\x01c": 3}))
    assert list(disk.dump().items()) == [(b"\x01c", (3).to_bytes(8, "little")), (A, b"1"), (B, b"2")]


async def test_each_damaged_bit_is_found_and_the_damage_undone_by_repeating_it(disk, engine):
    await engine.commit(Batch(set={A: b"value"}))
    for bit in range(9 * 8):
        disk.damage(A, bit)
        with pytest.raises(Corrupted):
            await engine.read([A])
        with pytest.raises(Corrupted):
            disk.dump()
        disk.damage(A, bit)
    assert await engine.read([A]) == [b"value"]


async def test_an_expectation_of_a_damaged_row_is_corrupted_not_a_conflict(disk, engine):
    await engine.commit(Batch(set={A: b"value"}))
    disk.damage(A)
    with pytest.raises(Corrupted):
        await engine.commit(Batch(expect={A: b"value"}, set={A: b"new"}))
    with pytest.raises(Corrupted):
        await engine.watch(A, b"value")


async def test_a_commit_cancelled_in_its_first_turn_is_not_applied(disk, engine):
    task = asyncio.create_task(engine.commit(Batch(set={A: b"1"})))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert disk.dump() == {}
    await engine.close()


async def test_a_commit_cancelled_in_its_last_turn_is_applied(disk, engine):
    task = asyncio.create_task(engine.commit(Batch(set={A: b"1"})))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert disk.dump() == {A: b"1"}


async def test_another_commit_may_come_between_a_decision_and_its_commit(engine):
    await engine.commit(Batch(set={A: b"1"}))
    first = asyncio.create_task(engine.commit(Batch(expect={A: b"1"}, set={A: b"2"})))
    with pytest.raises(Conflict):
        await asyncio.gather(first, engine.commit(Batch(expect={A: b"1"}, set={A: b"3"})))


async def test_a_watch_wakes_even_if_the_old_value_has_returned_since(engine):
    await engine.commit(Batch(set={A: b"1"}))
    watching = asyncio.create_task(engine.watch(A, b"1"))
    await engine.read([A])
    await engine.commit(Batch(set={A: b"2"}))
    await engine.commit(Batch(set={A: b"1"}))
    await asyncio.wait_for(watching, 10)


async def test_writing_the_same_value_again_wakes_nobody(engine):
    await engine.commit(Batch(set={A: b"1"}))
    watching = asyncio.create_task(engine.watch(A, b"1"))
    await engine.read([A])
    await engine.commit(Batch(set={A: b"1"}))
    await engine.read([A])
    assert not watching.done()
    watching.cancel()
    await asyncio.wait([watching])


async def test_no_watch_stays_behind(disk, engine):
    tasks = [asyncio.create_task(engine.watch(key, None)) for key in (A, A, B)]
    await engine.read([A])
    tasks[0].cancel()
    await engine.commit(Batch(set={A: b"1"}))
    await engine.close()
    await asyncio.wait(tasks)
    assert disk._watches == {}
    assert engine._watches == []


async def test_scans_follow_any_mix_of_added_and_removed_keys(engine):
    """Few changes between two scans are merged one by one, many by sorting again."""
    chance = random.Random(7)
    present = set()
    for _ in range(60):
        count = chance.choice([1, 5, 200])
        names = {b"\x02k%04d" % chance.randrange(2_000) for _ in range(count)}
        removed = set(chance.sample(sorted(present), min(len(present), count // 2))) - names
        await engine.commit(Batch(set=dict.fromkeys(names, b""), clear=removed))
        present = (present - removed) | names
        page = await engine.scan(b"\x02k", b"\x02l", limit=10_000)
        assert [key for key, _ in page.items] == sorted(present)


async def test_a_key_removed_and_added_between_two_scans_is_there_once(engine):
    await engine.commit(Batch(set={A: b"1"}))
    await engine.scan(A, B, limit=1)
    await engine.commit(Batch(clear=[A]))
    await engine.commit(Batch(set={A: b"2"}))
    assert (await engine.scan(A, B, limit=5)).items == [(A, b"2")]
    await engine.commit(Batch(clear=[A]))
    assert (await engine.scan(A, B, limit=5)).items == []
