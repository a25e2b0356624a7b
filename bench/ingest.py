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
Ways         see `ingest_ways`: events with ids, replies and so on, beside the plainest.

All take turns on files of their own in one folder. In a round both sides do the same events, one right after
the other, so that they meet the same machine: the ratio to the floor is the median of the rounds' ratios.
Times are those of the best round, and so is the ratio to the other library. On a busy machine the ratios say
nothing: Cellule works on two threads, the floor on one that waits for the disk. So the load is shown; it
should be below 1.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

import cellule
from bench import ingest_ways
from bench.ingest_floor import Floor, commits_since
from bench.ingest_jobs import JOBS, Job
from bench.ingest_others import Others
from bench.ingest_rows import at_most
from bench.ingest_sends import Send, by_tasks, in_halves, one_by_one, windowed
from bench.report import Row, measured, ratio, stream
from cellule.host.ingress.handles import WorldHandle

KEYS = 1_000
IN_FLIGHT = {1: 50, 10: 500, 100: 2_000, 1_000: 20_000}  # and the events of a round
TASKS_EVENTS = 5_000
ROUNDS = 25
OTHERS_EVENTS = 100
FLOOR_MIN, OTHERS_MIN, ALONE_MAX = 1 / 3, 30.0, 3.0


def run(*, quick: bool) -> Iterator[Row]:
    """For each record: windows, tasks, one at a time, and the other library; then the ways to send."""
    for job in JOBS:
        yield from stream(_measure(job, quick=quick))
    yield from stream(ingest_ways.measure(quick=quick))


async def _measure(job: Job, *, quick: bool) -> AsyncGenerator[Row, None]:
    share, rounds = (50, 1) if quick else (1, ROUNDS)
    keys = KEYS // share
    yield measured("ingest", f"{job.name}, the machine", "load before", os.getloadavg()[0], "")
    with tempfile.TemporaryDirectory() as folder:
        floor, others = Floor(Path(folder) / "floor.db", job), Others(Path(folder) / "others.db", keys, job)
        with floor.closing(), closing(others):
            async with cellule.open(Path(folder) / "data", job.app) as node:
                turns = _Turns(await node.world("bench"), floor, keys, job)
                await turns.one(windowed(keys), keys)
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

    async def rounds(self, send: Send, count: int, rounds: int) -> _Rounds:
        """So many rounds of `count` events."""
        taken = _Rounds(count)
        for _ in range(rounds):
            taken.add(await self.one(send, count))
        return taken


class _Rounds:
    """What rounds of so many events took."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken: list[tuple[float, float, int]] = []

    def add(self, taken: tuple[float, float, int]) -> None:
        """Seconds of both sides, and the number of frames."""
        self._taken.append(taken)

    @property
    def ours_s(self) -> float:
        """Seconds an event, in the best round."""
        return min(taken[0] for taken in self._taken) / self._count

    @property
    def floor_s(self) -> float:
        """The same of the floor."""
        return min(taken[1] for taken in self._taken) / self._count

    @property
    def ratio(self) -> float:
        """How much of the floor's speed we reach: the median of the rounds."""
        return median(taken[1] / taken[0] for taken in self._taken)

    @property
    def events_a_frame(self) -> float:
        """Over all rounds."""
        return self._count * len(self._taken) / sum(taken[2] for taken in self._taken)


async def _in_flight(turns: _Turns, others: Others, size: int, count: int, rounds: int) -> list[Row]:
    case = f"{turns.job.name}, {size:,} in flight"
    others_s = float("inf")
    taken = _Rounds(count)
    for _ in range(rounds):
        taken.add(await turns.one(windowed(size), count))
        if size == KEYS:
            others_s = min(others_s, _others(others, OTHERS_EVENTS if rounds > 1 else 10))
    is_target = turns.job.has_targets and size == KEYS
    rows = [
        ratio("ingest", case, "events vs floor", taken.ratio, FLOOR_MIN if is_target else None),
        measured("ingest", case, "events", 1 / taken.ours_s, "/s"),
        measured("ingest", case, "an event", taken.ours_s * 1e6, "us"),
        measured("ingest", case, "an event of the floor", taken.floor_s * 1e6, "us"),
        measured("ingest", case, "events a frame", taken.events_a_frame, ""),
    ]
    if size == KEYS:
        least = OTHERS_MIN if is_target else None
        rows.append(ratio("ingest", case, "events vs eventsourcing", others_s / taken.ours_s, least))
        rows.append(measured("ingest", case, "events of eventsourcing", 1 / others_s, "/s"))
    return rows


async def _halves(turns: _Turns, size: int, count: int, rounds: int) -> list[Row]:
    case = f"{turns.job.name}, {size:,} in flight by send_many"
    taken = await turns.rounds(in_halves(size), count, rounds)
    least = FLOOR_MIN if turns.job.has_targets else None
    return [
        ratio("ingest", case, "events vs floor", taken.ratio, least),
        measured("ingest", case, "events", 1 / taken.ours_s, "/s"),
        measured("ingest", case, "an event", taken.ours_s * 1e6, "us"),
        measured("ingest", case, "events a frame", taken.events_a_frame, ""),
    ]


def _others(others: Others, count: int) -> float:
    start = time.perf_counter()
    others.run(range(count))
    return (time.perf_counter() - start) / count


async def _tasks(turns: _Turns, size: int, count: int, rounds: int) -> Row:
    taken = await turns.rounds(by_tasks(size), count, rounds)
    case = f"{turns.job.name}, {size:,} tasks awaiting send"
    return measured("ingest", case, "events", 1 / taken.ours_s, "/s")


async def _alone(turns: _Turns, count: int, rounds: int) -> list[Row]:
    case = f"{turns.job.name}, one at a time, applied"
    taken = await turns.rounds(one_by_one, count, rounds)
    most = ALONE_MAX if turns.job.has_targets else None
    return [
        at_most("ingest", case, "latency vs floor", 1 / taken.ratio, "x", most),
        measured("ingest", case, "latency", taken.ours_s * 1e6, "us"),
        measured("ingest", case, "latency of the floor", taken.floor_s * 1e6, "us"),
    ]
