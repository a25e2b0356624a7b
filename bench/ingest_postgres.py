"""`ingest` on PostgreSQL: a whole node beside bare inserts of the same bytes in the same batches. Wall time.

A real server with `fsync` on. As in `ingest`, typed events go in and are acknowledged when they are durable;
a round does the same events on both sides, one right after the other, and a ratio is the median of rounds.

Ours    `cellule.open("postgresql://...", objects=folder)`: 1,000 keys, read-add-write; every commit expects
        epoch and head.
Bare    one connection, one statement a batch: it inserts the frame's rows and the head, with the bytes and in
        the batches of ours, read back from the journal outside the clock. Nothing is decoded, stepped,
        encoded, compared or told.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from statistics import median
from typing import Any

import asyncpg

import cellule
from bench.ingest_floor import Commit, commits_since
from bench.ingest_jobs import JOBS, Job
from bench.ingest_sends import Send, in_halves, one_by_one, windowed
from bench.report import Row, measured, ratio, stream
from cellule.host.ingress.handles import WorldHandle
from tests.support.servers.postgres import PostgresServer, missing_reason

BENCH = "ingest_postgres"
KEYS = 1_000
EVENTS = 20_000
ROUNDS = 9
BARE_MIN = 1 / 3

_TABLE = "CREATE TABLE bare (key bytea PRIMARY KEY, value bytea NOT NULL)"
_INSERT = (
    "INSERT INTO bare SELECT * FROM unnest($1::bytea[], $2::bytea[]) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


def run(*, quick: bool) -> Iterator[Row]:
    """Windows, halves and one at a time, for each record."""
    yield from stream(_measure(quick=quick))


async def _measure(*, quick: bool) -> AsyncGenerator[Row, None]:
    reason = missing_reason()
    if reason is not None:
        raise RuntimeError(reason)
    server = await asyncio.to_thread(PostgresServer.create, {"fsync": "on"})
    try:
        connection = await asyncpg.connect(server.dsn)
        try:
            await connection.execute(_TABLE)
            bare = _Bare(await connection.prepare(_INSERT))
            with tempfile.TemporaryDirectory() as objects:
                for job in JOBS:
                    async for row in _job(server.dsn, objects, bare, job, quick=quick):
                        yield row
        finally:
            await connection.close()
    finally:
        await asyncio.to_thread(server.close)


async def _job(dsn: str, objects: str, bare: _Bare, job: Job, *, quick: bool) -> AsyncGenerator[Row, None]:
    share, rounds = (50, 1) if quick else (1, ROUNDS)
    keys, events = KEYS // share, EVENTS // share
    async with cellule.open(dsn, job.app, objects=objects) as node:
        turns = _Turns(await node.world(job.app.namespace), bare, keys, job)
        await turns.one(windowed(keys), keys)
        for name, send, count in (
            (f"{keys:,} in flight", windowed(keys), events),
            (f"{keys:,} in flight by send_many", in_halves(keys), events),
            ("one at a time, applied", one_by_one, max(events // 400, 1)),
        ):
            for row in await _rows(turns, f"{job.name}, {name}", send, count, rounds):
                yield row


async def _rows(turns: _Turns, case: str, send: Send, count: int, rounds: int) -> list[Row]:
    taken = [await turns.one(send, count) for _ in range(rounds)]
    ours_s = min(each[0] for each in taken) / count
    bare_s = min(each[1] for each in taken) / count
    target = BARE_MIN if turns.job.has_targets and count > turns.keys else None
    return [
        ratio(BENCH, case, "events vs bare inserts", median(each[1] / each[0] for each in taken), target),
        measured(BENCH, case, "events", 1 / ours_s, "/s"),
        measured(BENCH, case, "an event", ours_s * 1e6, "us"),
        measured(BENCH, case, "an event of bare inserts", bare_s * 1e6, "us"),
        measured(BENCH, case, "events a frame", count * rounds / sum(each[2] for each in taken), ""),
    ]


class _Bare:
    """A table and the one statement that writes a batch into it."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement

    async def run(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            keys, values = zip(*commit.rows, strict=True)
            await self._statement.fetch(keys, values)


class _Turns:
    """Both sides on the same events."""

    def __init__(self, world: WorldHandle, bare: _Bare, keys: int, job: Job) -> None:
        self.job = job
        self.keys = keys
        self._world = world
        self._bare = bare
        self._next = 0

    async def one(self, send: Send, count: int) -> tuple[float, float, int]:
        """Seconds of both sides for `count` events, and into how many frames they went."""
        first, self._next = self._next, self._next + count
        job = self.job
        events = [job.event(job.key(number % self.keys), number) for number in range(first, self._next)]
        before = (await self._world.head()).height
        start = time.perf_counter()
        await send(self._world, events)
        ours_s = time.perf_counter() - start
        commits = await commits_since(self._world, before, events, job)
        start = time.perf_counter()
        await self._bare.run(commits)
        return ours_s, time.perf_counter() - start, len(commits)
