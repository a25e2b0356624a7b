"""Events from this process into a world over 1,000 keys, durable before they are acknowledged. Wall time.

Records      a small one (a key and a number), which has the targets, and beside it an order (a dozen fields,
             lines, a time, a map).
In flight    so many events are handed over by `send_nowait` and not yet acknowledged; as soon as the oldest
             is, new ones follow. Typed events in, encoded inside the clock.
Halves       as many, handed over by `send_many` in two tasks, half of them at a time each.
Tasks        as many tasks, each awaiting `send` for one event after another.
Alone        `send` (`applied`), the next one after its answer.
Floor        see `ingest_floor`: the same events, in the same batches, the same bytes; one for each record.
Others       see `ingest_others`: one after another, as that library works.

All take turns on files of their own in one folder, and the best round of each counts. Rounds are short and
many, so that each side meets the quiet moments of a busy machine. Where there are none the ratios say
nothing: the floor is one thread that waits for the disk, and suffers most. So the load is shown; it should
be below 1.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import cellule
from bench.ingest_floor import Floor, commits_since
from bench.ingest_jobs import JOBS, Job
from bench.ingest_others import Others
from bench.ingest_rows import at_most
from bench.report import Row, measured, ratio, stream
from cellule.host.handles import WorldHandle
from cellule.host.sends import Sent

KEYS = 1_000
IN_FLIGHT = {1: 50, 10: 500, 100: 2_000, 1_000: 20_000}  # and the events of a round
TASKS_EVENTS = 5_000
ROUNDS = 25
OTHERS_EVENTS = 100
FLOOR_MIN, OTHERS_MIN, ALONE_MAX = 1 / 3, 30.0, 3.0

Send = Callable[[WorldHandle, list[Any]], Awaitable[None]]


def run(*, quick: bool) -> Iterator[Row]:
    """For each record: windows of several sizes, tasks, one at a time, and the other library."""
    for job in JOBS:
        yield from stream(_measure(job, quick=quick))


async def _measure(job: Job, *, quick: bool) -> AsyncGenerator[Row, None]:
    share, rounds = (50, 1) if quick else (1, ROUNDS)
    keys = KEYS // share
    yield measured("ingest", f"{job.name}, the machine", "load before", os.getloadavg()[0], "")
    with tempfile.TemporaryDirectory() as folder:
        floor, others = Floor(Path(folder) / "floor.db", job), Others(Path(folder) / "others.db", keys, job)
        with floor.closing(), closing(others):
            async with cellule.open(Path(folder) / "data", job.app) as node:
                turns = _Turns(await node.world("bench"), floor, keys, job)
                await turns.one(_windowed(keys), keys)
                for size, events in IN_FLIGHT.items():
                    count = max(events // share, size // share, 1)
                    for row in await _in_flight(turns, others, size, count, rounds):
                        yield row
                for row in await _halves(turns, keys, IN_FLIGHT[KEYS] // share, rounds):
                    yield row
                yield await _tasks(turns, KEYS // share, TASKS_EVENTS // share, rounds)
                for row in await _alone(turns, IN_FLIGHT[1] // share, rounds):
                    yield row


class _Turns:
    """Cellule and its floor on the same events."""

    def __init__(self, world: WorldHandle, floor: Floor, keys: int, job: Job) -> None:
        self.job = job
        self._world = world
        self._floor = floor
        self._keys = keys
        self._next = 0

    async def one(self, send: Send, count: int) -> tuple[float, float, int]:
        """Seconds of both sides for `count` events, and into how many frames they went."""
        first, self._next = self._next, self._next + count
        job, keys = self.job, self._keys
        events = [job.event(job.key(number % keys), number) for number in range(first, self._next)]
        before = (await self._world.head()).height
        start = time.perf_counter()
        await send(self._world, events)
        ours_s = time.perf_counter() - start
        commits = await commits_since(self._world, before, events, job)
        start = time.perf_counter()
        self._floor.run(commits)
        floor_s = time.perf_counter() - start
        self._floor.check(commits)
        return ours_s, floor_s, len(commits)

    async def best(self, send: Send, count: int, rounds: int) -> tuple[float, float, float]:
        """Seconds an event in the best round of each side, and events a frame in all rounds."""
        taken = [await self.one(send, count) for _ in range(rounds)]
        frames = sum(each[2] for each in taken)
        return min(t[0] for t in taken) / count, min(t[1] for t in taken) / count, count * rounds / frames


async def _in_flight(turns: _Turns, others: Others, size: int, count: int, rounds: int) -> list[Row]:
    case = f"{turns.job.name}, {size:,} in flight"
    ours_s = floor_s = others_s = float("inf")
    batches = []
    for _ in range(rounds):
        ours, floor, batch = await turns.best(_windowed(size), count, 1)
        ours_s, floor_s = min(ours_s, ours), min(floor_s, floor)
        batches.append(batch)
        if size == KEYS:
            others_s = min(others_s, _others(others, OTHERS_EVENTS if rounds > 1 else 10))
    is_target = turns.job.has_targets and size == KEYS
    rows = [
        ratio("ingest", case, "events vs floor", floor_s / ours_s, FLOOR_MIN if is_target else None),
        measured("ingest", case, "events", 1 / ours_s, "/s"),
        measured("ingest", case, "an event", ours_s * 1e6, "us"),
        measured("ingest", case, "an event of the floor", floor_s * 1e6, "us"),
        measured("ingest", case, "events a frame", sum(batches) / len(batches), ""),
    ]
    if size == KEYS:
        least = OTHERS_MIN if is_target else None
        rows.append(ratio("ingest", case, "events vs eventsourcing", others_s / ours_s, least))
        rows.append(measured("ingest", case, "events of eventsourcing", 1 / others_s, "/s"))
    return rows


async def _halves(turns: _Turns, size: int, count: int, rounds: int) -> list[Row]:
    case = f"{turns.job.name}, {size:,} in flight by send_many"
    ours_s, floor_s, batch = await turns.best(_in_halves(size), count, rounds)
    return [
        ratio(
            "ingest", case, "events vs floor", floor_s / ours_s, FLOOR_MIN if turns.job.has_targets else None
        ),
        measured("ingest", case, "events", 1 / ours_s, "/s"),
        measured("ingest", case, "an event", ours_s * 1e6, "us"),
        measured("ingest", case, "events a frame", batch, ""),
    ]


def _others(others: Others, count: int) -> float:
    start = time.perf_counter()
    others.run(range(count))
    return (time.perf_counter() - start) / count


async def _tasks(turns: _Turns, size: int, count: int, rounds: int) -> Row:
    ours_s, _, _ = await turns.best(_by_tasks(size), count, rounds)
    return measured("ingest", f"{turns.job.name}, {size:,} tasks awaiting send", "events", 1 / ours_s, "/s")


async def _alone(turns: _Turns, count: int, rounds: int) -> list[Row]:
    case = f"{turns.job.name}, one at a time, applied"
    ours_s, floor_s, _ = await turns.best(_one_by_one, count, rounds)
    return [
        at_most(
            "ingest",
            case,
            "latency vs floor",
            ours_s / floor_s,
            "x",
            ALONE_MAX if turns.job.has_targets else None,
        ),
        measured("ingest", case, "latency", ours_s * 1e6, "us"),
        measured("ingest", case, "latency of the floor", floor_s * 1e6, "us"),
    ]


def _windowed(size: int) -> Send:
    async def send(world: WorldHandle, events: list[Any]) -> None:
        under_way: deque[Sent] = deque()
        for event in events:
            if len(under_way) >= size:
                await under_way[0].wait()
                while under_way and under_way[0].finished:
                    under_way.popleft()
            under_way.append(await world.send_nowait(event))
        for sent in under_way:
            await sent.wait()

    return send


def _in_halves(size: int) -> Send:
    async def send(world: WorldHandle, events: list[Any]) -> None:
        async def work(first: int) -> None:
            for start in range(first, len(events), size):
                await world.send_many(events[start : start + size // 2])

        async with asyncio.TaskGroup() as tasks:
            for first in (0, size // 2):
                tasks.create_task(work(first))

    return send


def _by_tasks(size: int) -> Send:
    async def send(world: WorldHandle, events: list[Any]) -> None:
        async def work(mine: list[Any]) -> None:
            for event in mine:
                await world.send(event)

        async with asyncio.TaskGroup() as tasks:
            for number in range(size):
                tasks.create_task(work(events[number::size]))

    return send


async def _one_by_one(world: WorldHandle, events: list[Any]) -> None:
    for event in events:
        await world.send(event)
