"""Effects from the event to the step that gets the receipt, in one process, on SQLite. Wall time.

Intents    1,000 jobs ask for an effect each, all at once; an adapter of this process does nothing. An intent
           is done when its receipt's step is durable: event, step, intent and outbox row in one frame; one
           attempt; the receipt into the inbox as the row is cleared; receipt and step in another frame.
Floor      see `effects_floor`: the same writes in the same transactions, and the bare work of the steps.
Alone      one job after the other.
Timers     10,000 timers are due at one moment; each fires as a receipt, and its cell steps.
Policy     in memory, CPU time: beats of 1,000 requests under no policy and under one of five rules, of which
           none matches, so that every rule is asked about every request.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from itertools import count
from pathlib import Path

import cellule
from bench.effects_app import TIMER_SPAN, Later, Ping, Wanted, app, free_app, governed_app, job
from bench.effects_floor import Floor, TakenDown, commits_of
from bench.report import Row, measured, ratio, stream
from bench.timing import Side, best_of
from cellule import Options
from cellule.host.ingress.handles import WorldHandle
from cellule.host.outbox.pool import Pool
from cellule.host.service import Cellule
from cellule.sources import SystemClock
from cellule.store.engines.sqlite import SqliteEngine
from cellule.testing import World

JOBS = 1_000
ALONE = 50
TIMERS = 10_000
ROUNDS = 15
FLOOR_MIN = 1 / 3


def run(*, quick: bool) -> Iterator[Row]:
    """Intents, timers, and what a policy costs."""
    yield from stream(_intents(*((20, 2, 1) if quick else (JOBS, ALONE, ROUNDS))))
    yield from stream(_timers(50 if quick else TIMERS, 1 if quick else 3))
    yield from _policy(*((20, 1) if quick else (JOBS, ROUNDS)))


# Intents


async def _intents(jobs: int, alone: int, rounds: int) -> AsyncGenerator[Row, None]:
    with tempfile.TemporaryDirectory() as folder:
        floor = Floor(Path(folder) / "floor.db")
        with floor.closing():
            async with cellule.open(Path(folder) / "data", app) as node:
                turns = _Turns(node, await node.world("bench"), floor, jobs)
                await turns.one(jobs)
                taken = [await turns.one(jobs) for _ in range(rounds)]
                ours_s, floor_s = min(each[0] for each in taken) / jobs, min(each[1] for each in taken) / jobs
                case = f"{jobs:,} intents at once"
                yield ratio("effects", case, "intents vs floor", floor_s / ours_s, FLOOR_MIN)
                yield measured("effects", case, "intents", 1 / ours_s, "/s")
                yield measured("effects", case, "an intent", ours_s * 1e6, "us")
                yield measured("effects", case, "an intent of the floor", floor_s * 1e6, "us")
                commits = sum(each[2] for each in taken) / rounds
                yield measured("effects", case, "commits", commits, "")
                both = [await turns.one(1) for _ in range(alone)]
                case = "one intent after the other"
                yield measured("effects", case, "an intent", min(each[0] for each in both) * 1e6, "us")
                yield measured(
                    "effects", case, "an intent of the floor", min(each[1] for each in both) * 1e6, "us"
                )


class _Turns:
    """Cellule and its floor on the same intents."""

    def __init__(self, node: Cellule, world: WorldHandle, floor: Floor, jobs: int) -> None:
        engine, pool = node.node.engine, node.node.pool
        assert isinstance(engine, SqliteEngine)
        assert isinstance(pool, Pool)
        self._node, self._engine, self._pool = node, engine, pool
        self._world = world
        self._floor = floor
        self._jobs = jobs
        self._asked = count()

    async def one(self, number: int) -> tuple[float, float, int]:
        """Seconds of both sides for so many intents, and in how many transactions they were written."""
        events = [
            Wanted(f"job-{at % self._jobs:06d}", at) for at in (next(self._asked) for _ in range(number))
        ]
        before = (await self._world.head()).height
        with TakenDown(self._engine) as taken:
            start = time.perf_counter()
            await self._ask(events)
            gc.collect(0)  # what it leaves to be collected is its own cost: a burst ends before that is due
            ours_s = time.perf_counter() - start
        commits = await commits_of(self._world, taken.groups, before + 1)
        assert sum(len(each.receipts) for each in commits) == number
        start = time.perf_counter()
        await self._floor.run(commits)
        floor_s = time.perf_counter() - start
        self._floor.check(commits)
        return ours_s, floor_s, len(commits)

    async def _ask(self, events: list[Wanted]) -> None:
        """Send all, and wait until the step of every receipt is durable."""
        for sent in [await self._world.send_nowait(event) for event in events]:
            await sent.wait()
        await self._pool.wait_idle()
        await _settled(self._node, self._world)


async def _settled(node: Cellule, world: WorldHandle) -> None:
    """Wait until nothing is open, no cell has work, and all of that is durable: an event behind it is."""
    ledger = (await node.node.hosted(world.info)).world.ledger
    while ledger.book.counts or ledger.book.timers or ledger.ring:
        await world.send(Ping(0))
    await world.send(Ping(0))


# Timers


class _Clock(SystemClock):
    """The machine's clock, which can be put forward."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def now_ns(self) -> int:
        return super().now_ns() + self.ahead_ns


async def _timers(timers: int, rounds: int) -> AsyncGenerator[Row, None]:
    clock = _Clock()
    best_s = set_s = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        async with cellule.open(Path(folder), app, options=Options(clock=clock)) as node:
            world = await node.world("bench")
            for _ in range(rounds):
                start = time.perf_counter()
                await world.send_many(Later(f"job-{number:06d}") for number in range(timers))
                set_s = min(set_s, time.perf_counter() - start)
                best_s = min(best_s, await _fired(node, world, clock, timers))
            state = await world.cell(job, "job-000000").state()
            assert state.fired == rounds
    case = f"{timers:,} timers due at once"
    yield measured("effects", case, "set", timers / set_s, "/s")
    yield measured("effects", case, "fired", timers / best_s, "/s")
    yield measured("effects", case, "a timer fired", best_s / timers * 1e6, "us")


async def _fired(node: Cellule, world: WorldHandle, clock: _Clock, timers: int) -> float:
    """Seconds until all timers have fired and their steps are durable."""
    book = (await node.node.hosted(world.info)).world.ledger.book
    assert book.timers == timers
    clock.ahead_ns += round(TIMER_SPAN.total_seconds() * 1e9)
    start = time.perf_counter()
    await _settled(node, world)
    gc.collect(0)
    return time.perf_counter() - start


# Policy


def _policy(jobs: int, rounds: int) -> Iterator[Row]:
    sides = [_asking(made, jobs) for made in (free_app(), governed_app())]
    best_of(*sides, rounds=1)
    free_s, governed_s = best_of(*sides, rounds=rounds)
    case = f"{jobs:,} requests a beat, in memory"
    yield measured("effects", case, "a request without policy", free_s / jobs * 1e6, "us")
    yield measured("effects", case, "a request under five rules", governed_s / jobs * 1e6, "us")
    yield measured("effects", case, "five rules", (governed_s - free_s) / jobs * 1e6, "us")


def _asking(made: cellule.App, jobs: int) -> Side:
    """Beats of requests that stay open; the clock and chance of the world are the testing world's."""
    world = World(made, guard=False, live=True)
    turns = count()

    def items() -> list[object]:
        turn = next(turns)
        return [world.item(Wanted(f"job-{turn:04d}-{at:06d}", at)) for at in range(jobs)]

    return Side(world.host.beat, items)
