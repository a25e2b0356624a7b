"""A pool whose process ends at each operation of the store in turn, and whose disk fails at each in turn.

A server outside counts calls by idempotency key. After a restart without faults every intent has been called
at least once, always under its one key, and has exactly one receipt.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import msgspec
import pytest

from cellule.effects.adapter import Adapters, Retry, adapter
from cellule.errors import Unavailable
from cellule.host.outbox.pool import Pool, PoolOptions
from cellule.host.outbox.signatures import memory_key
from cellule.sources import SystemClock
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.store.engines.sqlite import SqliteEngine
from cellule.testing import Fate, Fault, FaultPlan, FaultyEngine, SeededEntropy, VirtualClock, run
from tests.support.disks import FailingDisk
from tests.support.outbox import OutboxWorld, check_left_nothing, opening

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
EVERY = 1 if FULL else 7
OPENINGS = [opening(number) for number in range(6)]
KEY = memory_key(SeededEntropy(1, "key"))
FATES = {
    "commit": [
        Fate.CRASH_LOST,
        Fate.CRASH_APPLIED,
        Fate.UNKNOWN_APPLIED,
        Fate.UNKNOWN_LOST,
        Fate.UNAVAILABLE,
    ],
    "read": [Fate.CRASH_LOST, Fate.UNAVAILABLE],
    "scan": [Fate.CRASH_LOST, Fate.UNAVAILABLE],
}


class Work(msgspec.Struct, frozen=True):
    number: int


class Worked(msgspec.Struct, frozen=True):
    number: int


class Server:
    """Counts calls by intent and key; every intent's first call fails."""

    def __init__(self):
        self.calls = Counter()

    def adapter(self):
        @adapter("test.work", concurrency=2, backoff_s=0.001, backoff_max_s=0.01)
        async def work(params: Work, attempt) -> Worked:
            self.calls[(params.number, attempt.key)] += 1
            await asyncio.sleep(0)
            if attempt.number == 1:
                raise Retry("the first time never works")
            return Worked(params.number)

        return work

    def check(self):
        assert set(self.calls) == {(number, each.key) for number, each in enumerate(OPENINGS)}
        assert min(self.calls.values()) >= 2


def pool_of(engine, server, clock):
    entropy = SeededEntropy(3, "pool")
    options = PoolOptions(search_s=0.05, stall_s=0.02, grace_s=0.1)
    return Pool(
        engine, Adapters([server.adapter()]), KEY, lambda universe: Cas(engine, universe), clock, entropy,
        options=options,
    )  # fmt: skip


async def life(engine, server, clock, opened, seen=None):
    """Work until everything is done, as `seen`, an engine of the test's own, tells."""
    pool = pool_of(engine, server, clock)
    async with pool.running():
        pool.offer(opened)
        while True:
            await pool.wait_idle()
            if len(await OutboxWorld(seen or engine, KEY).receipts()) == len(OPENINGS):
                return
            pool.search()
            await asyncio.sleep(0.01)


def crash_once(operation, number, fate):
    """One life with one fault, one without; tell whether the fault was reached."""

    async def main():
        disk, server, clock = MemoryDisk(), Server(), VirtualClock()
        opened = await OutboxWorld(MemoryEngine(disk), KEY).open(OPENINGS, clock.now_ns())
        plan = FaultPlan(**{operation: {number: Fault(fate)}})
        engine = FaultyEngine(MemoryEngine(disk), plan)
        offered = opened.stored[::2]  # the others are found by searching
        living = asyncio.create_task(life(engine, server, clock, offered, MemoryEngine(disk)))
        crashed = asyncio.create_task(engine.wait_crashed())
        await asyncio.wait([living, crashed], return_when=asyncio.FIRST_COMPLETED)
        for task in (living, crashed):
            task.cancel()
        await asyncio.wait([living, crashed])
        if not engine.has_crashed():
            living.result()
        if engine.has_crashed():
            await life(MemoryEngine(disk), server, clock, [])
        server.check()
        world = OutboxWorld(MemoryEngine(disk), KEY)
        await check_left_nothing(world, [each.intent for each in OPENINGS])
        return engine.count(operation) >= number

    return run(main, seed=number).result


@pytest.mark.parametrize(
    ("operation", "fate"), [(operation, fate) for operation, fates in FATES.items() for fate in fates]
)
def test_a_process_that_ends_at_any_operation_costs_no_receipt(operation, fate):
    number = 1
    while crash_once(operation, number, fate):
        number += 1
        assert number < 500
    assert number > 2


async def disk_fails_once(folder, fail_at, kind):
    """Two lives over a disk with one fault, then one without; returns what failed and what was asked for."""
    folder.mkdir()
    server, clock = Server(), SystemClock()
    async with await SqliteEngine.open(folder / "a.db") as engine:
        await OutboxWorld(engine, KEY).open(OPENINGS, clock.now_ns())
    disk = FailingDisk(f"outbox-{kind}-{fail_at}-{os.getpid()}", fail_at, kind)
    try:
        for _ in range(2):
            try:
                async with await SqliteEngine.open(folder / "a.db", connect=disk.connect) as engine:
                    await life(engine, server, clock, [])
            except Unavailable:
                continue
        disk.heal()
        async with await SqliteEngine.open(folder / "a.db", connect=disk.connect) as engine:
            await life(engine, server, clock, [])
            server.check()
            await check_left_nothing(OutboxWorld(engine, KEY), [each.intent for each in OPENINGS])
            assert (await engine.check()).ok
    finally:
        disk.unregister()
    return len(disk.failed), disk.count


@pytest.mark.parametrize("kind", ["io", "full", "torn"])
async def test_a_disk_that_fails_once_costs_no_receipt(tmp_path, kind):
    _, operations = await disk_fails_once(tmp_path / "counting", 0, kind)
    reached = 0
    for fail_at in range(1, operations + 1, EVERY):
        reached += (await disk_fails_once(tmp_path / f"{fail_at}", fail_at, kind))[0]
    assert reached
