"""Pools that crash over a store that fails: each intent ends with one receipt, or was closed by its world.

A node commits frames, here a head and the rows of some intents, and hands them to its pool. An adapter counts
what it does by idempotency key, as a server outside would. The checker knows the store and that server only:
no intent is lost, none has two receipts, none was performed with another key, nothing is left in the outbox.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from cellule.effects.adapter import Adapters, Failed, Retry, adapter
from cellule.errors import Conflict, OutcomeUnknown, Unavailable
from cellule.host.outbox.pool import Pool, PoolOptions
from cellule.host.outbox.rows import closing_rows, opening_rows
from cellule.host.outbox.settlement import Settler
from cellule.host.outbox.signatures import memory_key
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch
from cellule.testing import CALM, ROUGH, SeededEntropy, Simulation, simulate
from cellule.values.cbor import decode, encode
from tests.support.mutants import assert_caught, happened
from tests.support.outbox import UNIVERSE, WORLD, OutboxWorld, check_left_nothing, opening

pytestmark = pytest.mark.simulation

INTENTS = 24
CRASHES = 4
CAUGHT_WITHIN = 100
HEAD = keys.world_head(UNIVERSE, WORLD)
OPENINGS = [opening(number, attempts=4, timeout_ns=200_000_000) for number in range(INTENTS)]
STARTED = {"opened": 0, "closed": []}


class Work(msgspec.Struct, frozen=True):
    number: int


class Worked(msgspec.Struct, frozen=True):
    number: int


class Outside:
    """The world outside: slow, moody, and it remembers every call."""

    def __init__(self, entropy):
        self.entropy = entropy
        self.calls = Counter()

    def adapter(self):
        @adapter("test.work", concurrency=4, backoff_s=0.05, backoff_max_s=1.0)
        async def work(params: Work, attempt) -> Worked:
            self.calls[(params.number, attempt.key)] += 1
            mood = self.entropy.below(10)
            if mood < 5:
                await asyncio.sleep(self.entropy.below(300) / 1_000)
            if mood == 0:
                raise Retry("moody", after_s=self.entropy.below(1_000) / 1_000)
            if mood == 1:
                raise RuntimeError("broken")
            if mood == 2 and attempt.number > 2:
                raise Failed("outside.no", "no")
            return Worked(params.number)

        return work


class Process:
    """One life of the node: it opens intents, closes some, and runs its pool until it crashes."""

    def __init__(self, simulation, outside, key):
        self.simulation = simulation
        self.chance = simulation.entropy
        self.outside = outside
        self.key = key

    async def main(self, engine):
        clock, entropy = self.simulation.clock, SeededEntropy(self.simulation.seed, "pool")
        pool = Pool(
            engine, Adapters([self.outside.adapter()]), self.key, lambda universe: Cas(engine, universe),
            clock, entropy, options=PoolOptions(search_s=1.0, stall_s=0.5),
        )  # fmt: skip
        async with pool.running():
            await self.work(engine, pool)
            await asyncio.sleep(10_000)

    async def work(self, engine, pool):
        while True:
            head = await read_head(engine)
            opened, closed = head["opened"], head["closed"]
            if opened == INTENTS:
                return
            count = min(INTENTS - opened, 1 + self.chance.below(5))
            ending = [opened - 1] if opened and self.chance.chance(0.4) else []
            after = {"opened": opened + count, "closed": [*closed, *ending]}
            made = opening_rows(
                UNIVERSE, WORLD, OPENINGS[opened : opened + count], self.simulation.clock.now_ns()
            )
            settled = [OPENINGS[number].intent for number in ending]
            if await committed(engine, head, after, {**made.set, **closing_rows(UNIVERSE, WORLD, settled)}):
                pool.offer(made.stored)
                pool.closed(settled)
            await asyncio.sleep(self.chance.below(100) / 1_000)


async def read_head(engine):
    while True:
        try:
            [head] = await engine.read([HEAD])
        except Unavailable:
            await asyncio.sleep(0.01)
        else:
            return STARTED if head is None else decode(head)


async def committed(engine, before, after, rows):
    """Commit a frame as a world does; False if another life was there first."""
    expected = None if before == STARTED else encode(before)
    batch = Batch(expect={HEAD: expected}, set={HEAD: encode(after), **rows})
    while True:
        try:
            await engine.commit(batch)
        except (Conflict, OutcomeUnknown):
            head = await read_head(engine)
            if head == after:
                return True
            if head != before:
                return False
        except Unavailable:
            await asyncio.sleep(0.01)
        else:
            return True


async def scenario(simulation: Simulation):
    outside = Outside(SeededEntropy(simulation.seed, "outside"))
    key = memory_key(SeededEntropy(simulation.seed, "key"))
    process = Process(simulation, outside, key)
    node = simulation.start("node", process.main)
    for _ in range(CRASHES):
        await asyncio.sleep(simulation.entropy.below(500) / 1_000)
        await node.crash()
        node = simulation.start("node", process.main)
    await asyncio.sleep(120)  # virtual: all the time it could need, and no crash
    await node.crash()
    await simulation.wire.settle()
    await check(simulation, key, outside)
    return sorted(outside.calls.items())


async def check(simulation, key, outside):
    engine = simulation.engine_for("checker", CALM)
    head = await read_head(engine)
    assert head["opened"] == INTENTS
    closed = {OPENINGS[number].intent for number in head["closed"]}
    world = OutboxWorld(engine, key)
    receipts = {receipt.intent for receipt in await world.receipts()}
    assert {each.intent for each in OPENINGS} - closed <= receipts, "an intent was lost"
    await check_left_nothing(world, sorted(receipts))
    used = dict(list(outside.calls))
    for number, each in enumerate(OPENINGS):
        assert used.get(number, each.key) == each.key, "an attempt had another key"
        assert number in used or each.intent not in receipts, "a receipt without an attempt"
    assert len(used) == len(outside.calls), "an intent was performed under two keys"


def test_every_intent_ends_with_one_receipt_whatever_crashes(seeds):
    simulate(scenario, seeds=seeds)


def test_the_same_seed_calls_the_outside_in_the_same_way():
    [first], [second] = (simulate(scenario, seeds=[5]) for _ in range(2))
    assert first == second


def careless_commit(settler, group):
    """Broken: it expects nothing of the rows it writes, and after an unknown outcome does not look."""

    async def write():
        attempt = 0
        while True:
            attempt += 1
            batch = settler._batch(group, attempt, set())
            if batch.expect:
                happened(careless_commit)
            try:
                await settler._engine.commit(Batch({}, batch.set, batch.clear, (), batch.add, batch.ordered))
            except (Unavailable, Conflict):
                await asyncio.sleep(0.01)
            else:
                for change in group:
                    settler._on_settled(change, True)
                return

    return write()


def deaf_to_markers(pool, intents):
    """Broken: markers are never looked at, so rows of closed intents stay."""
    if list(intents):
        happened(deaf_to_markers)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "said"),
    [
        (Settler, "_write", careless_commit, "more than one receipt"),
        (Pool, "closed", deaf_to_markers, "rows are left"),
    ],
)
def test_a_broken_pool_is_caught(monkeypatch, owner, name, broken, said):
    monkeypatch.setattr(owner, name, broken)
    assert_caught(lambda: simulate(scenario, seeds=range(CAUGHT_WITHIN), faults=ROUGH), broken, said)
