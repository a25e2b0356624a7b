"""An inbox: producers append by stamp, one consumer scans from the front and clears exactly what it took.

Stamps may become visible late, outcomes may be unknown, producers then send the same item id again, and the
consumer crashes now and then. Nothing is lost, and no id is applied twice.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from cellule.errors import Conflict, InvariantBroken, OutcomeUnknown, Unavailable
from cellule.store.engine import Batch
from cellule.testing import ROUGH, FaultyEngine, Simulation, simulate

pytestmark = pytest.mark.simulation

INBOX, INBOX_END, STATE, BELL = b"\x02inbox/", b"\x02inbox0", b"\x02state", b"\x01bell"
BACKOFF_SECONDS = 0.01
PAGE = 4
CAUGHT_WITHIN = 300


async def insist(operation):
    """Repeat a read until it gets through."""
    while True:
        try:
            return await operation()
        except Unavailable:
            await asyncio.sleep(BACKOFF_SECONDS)


async def produce(engine: FaultyEngine, items, acknowledged):
    """Send each item until it is acknowledged; an unknown outcome is sent again under the same id."""
    for item in items:
        batch = Batch(ordered=[(INBOX, item.encode())], add={BELL: 1})
        while True:
            try:
                await engine.commit(batch)
            except Unavailable:
                await asyncio.sleep(BACKOFF_SECONDS)
            else:
                break
        acknowledged.append(item)


class Consumer:
    """Applies items to a state that holds the ids applied so far, in order."""

    def __init__(self, engine: FaultyEngine) -> None:
        self.engine = engine

    async def consume(self):
        (stored,) = await insist(lambda: self.engine.read([STATE]))
        while True:
            # The bell is read before the scan: what comes after the scan rings it, and the watch returns.
            (bell,) = await insist(lambda: self.engine.read([BELL]))
            page = await insist(self.page)
            if page.items:
                stored = await self.take(stored, page.items)
            else:
                await insist(lambda bell=bell: self.engine.watch(BELL, bell))

    async def page(self):
        return await self.engine.scan(INBOX, INBOX_END, limit=PAGE)

    async def take(self, stored, items):
        """Apply a page of items in one batch, decided as every commit is decided."""
        after = json.dumps(self.applied(stored, items)).encode()
        batch = self.batch(stored, after, [key for key, _ in items])
        while True:
            try:
                await self.engine.commit(batch)
            except (OutcomeUnknown, Conflict):
                (now,) = await insist(lambda: self.engine.read([STATE]))
                if now != stored:
                    return now
            except Unavailable:
                await asyncio.sleep(BACKOFF_SECONDS)
            else:
                return after

    def applied(self, stored, items):
        state = [] if stored is None else json.loads(stored)
        for _, value in items:
            if value.decode() not in state:
                state.append(value.decode())
        # A page of duplicates changes nothing else, and an expected key that does not change fences nothing.
        return [*state, f"beat {sum(entry.startswith('beat') for entry in state)}"]

    def batch(self, stored, after, keys):
        return Batch(expect={STATE: stored}, set={STATE: after}, clear=keys)


class CursorConsumer(Consumer):
    """Broken: it scans from the last stamp it saw, so a smaller one that becomes visible later is lost."""

    cursor = INBOX

    async def page(self):
        return await self.engine.scan(self.cursor, INBOX_END, limit=PAGE)

    async def take(self, stored, items):
        self.cursor = items[-1][0] + b"\0"
        return await super().take(stored, items)


class RangeConsumer(Consumer):
    """Broken: it clears everything up to the last item of its page, which may have got new neighbours."""

    def batch(self, stored, after, keys):
        return Batch(expect={STATE: stored}, set={STATE: after}, clear_range=[(INBOX, keys[-1] + b"\0")])


class CredulousConsumer(Consumer):
    """Broken: it takes every row for a new item."""

    def applied(self, stored, items):
        state = [] if stored is None else json.loads(stored)
        return [*state, *(value.decode() for _, value in items)]


class DeafConsumer(Consumer):
    """Broken: it reads the bell after the scan, so what came in between never wakes it."""

    async def consume(self):
        (stored,) = await insist(lambda: self.engine.read([STATE]))
        while True:
            page = await insist(self.page)
            if page.items:
                stored = await self.take(stored, page.items)
                continue
            (bell,) = await insist(lambda: self.engine.read([BELL]))
            await insist(lambda bell=bell: self.engine.watch(BELL, bell))


def scenario_of(consumer, producers=3, items=5, crashes=2):
    async def scenario(simulation: Simulation):
        acknowledged = []
        made = {number: [f"{number}/{place}" for place in range(items)] for number in range(producers)}

        def start():
            return simulation.start("consumer", lambda engine: consumer(engine).consume())

        node = start()
        async with asyncio.TaskGroup() as group:
            for number, mine in made.items():
                engine = simulation.engine_for(f"producer {number}")
                group.create_task(produce(engine, mine, acknowledged))
            for _ in range(crashes):
                await asyncio.sleep(simulation.entropy.below(100) / 1_000)
                await node.crash()
                node = start()
        await simulation.wire.settle()
        await asyncio.sleep(60)  # virtual: the consumer has all the time it could need, and no crash
        await node.crash()
        check(simulation.disk.dump(), acknowledged, {item for mine in made.values() for item in mine})
        return simulation.disk.value(STATE)

    return scenario


def check(rows, acknowledged, submitted):
    applied = [entry for entry in json.loads(rows[STATE]) if not entry.startswith("beat")]
    assert len(applied) == len(set(applied)), "an item was applied twice"
    assert set(applied) <= submitted, "an item was invented"
    assert set(acknowledged) == submitted, "a producer gave up"
    left = {value.decode() for key, value in rows.items() if key.startswith(INBOX)}
    assert not left, "items were left in the inbox"
    assert set(applied) == submitted, "an acknowledged item was lost"


scenario = scenario_of(Consumer)


def test_every_acknowledged_item_is_applied_exactly_once(seeds):
    simulate(scenario, seeds=seeds)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (CursorConsumer, "items were left in the inbox"),
        (RangeConsumer, "an acknowledged item was lost"),
        (CredulousConsumer, "an item was applied twice"),
        (DeafConsumer, "items were left in the inbox"),
    ],
)
def test_a_broken_consumer_is_caught(broken, said):
    with pytest.raises(InvariantBroken) as caught:
        simulate(scenario_of(broken), seeds=range(CAUGHT_WITHIN), faults=ROUGH)
    assert caught.value.code == "testing.seed_failed"
    assert isinstance(caught.value.__cause__, AssertionError)
    assert said in str(caught.value.__cause__)
    assert "fails identically" in str(caught.value)
