"""The PostgreSQL engine beside a statement that expects nothing.

A real server with `fsync` on. Each world commits its frames one after another, all worlds at the same time;
batches and arguments are made outside the clock.

Ours           `await engine.commit(batch)`: the world's epoch and head are expected, the frame and the new
               head are written; checks, checksums and the notice to watchers of other processes.
Unconditional  one statement that inserts the frame and upserts the head into the same tables, with rows of
               the same bytes, on the same connections of the same engine; nothing is compared or told.

An abort is any commit that fails; worlds share nothing, so there should be none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from random import Random
from uuid import UUID

from bench.report import Row, measured, none_of, ratio
from bench.timing import Side, best_of_waiting
from cellule.errors import Conflict, Unavailable
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.postgres import PostgresEngine
from cellule.store.engines.postgres.connection import Connection
from cellule.store.rows import seal_row
from tests.support.servers.postgres import PostgresServer, missing_reason

FRAME = Random(1).randbytes(2_000)
UNIVERSE = UUID(int=1)
CONNECTIONS = 16
FRAMES_MIN = 0.5
WORLDS = (1, 16, 100)

_UNCONDITIONAL = (
    "WITH frame AS (INSERT INTO cellule.journal VALUES ($1, $2)) "
    "INSERT INTO cellule.meta VALUES ($3, $4) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


async def measure(*, quick: bool) -> AsyncGenerator[Row, None]:
    """Frame commits for few and many worlds."""
    reason = missing_reason()
    if reason is not None:
        raise RuntimeError(reason)
    server = await asyncio.to_thread(PostgresServer.create, {"fsync": "on"})
    try:
        async with await PostgresEngine.open(server.dsn, pool_max=CONNECTIONS) as engine:
            for worlds in WORLDS:
                beats, rounds = (1, 1) if quick else (max(8, 400 // worlds), 15)
                for row in await _frames(engine, worlds, beats, rounds):
                    yield row
    finally:
        await asyncio.to_thread(server.close)


class Worlds:
    """Worlds that share nothing, and the frames each writes next."""

    def __init__(self, first: int, count: int, beats: int) -> None:
        self.heights = {UUID(int=first + at): 0 for at in range(count)}
        self._beats = beats

    async def start(self, engine: PostgresEngine) -> None:
        for world in self.heights:
            start = {keys.world_epoch(UNIVERSE, world): b"epoch", keys.world_head(UNIVERSE, world): _head(0)}
            await engine.commit(Batch(set=start))

    def batches(self) -> list[list[Batch]]:
        """A round of conditional batches, by world."""
        return [[self._batch(world) for _ in range(self._beats)] for world in self.heights]

    def arguments(self) -> list[list[list[bytes]]]:
        """A round of arguments of the unconditional statement, by world."""
        return [
            [
                [
                    part
                    for key, value in self._batch(world).set.items()
                    for part in (key, seal_row(key, value))
                ]
                for _ in range(self._beats)
            ]
            for world in self.heights
        ]

    def _batch(self, world: UUID) -> Batch:
        height = self.heights[world]
        self.heights[world] += 1
        epoch, head = keys.world_epoch(UNIVERSE, world), keys.world_head(UNIVERSE, world)
        return Batch(
            expect={epoch: b"epoch", head: _head(height)},
            set={keys.journal(UNIVERSE, world, height + 1): FRAME, head: _head(height + 1)},
        )


async def _write(connection: Connection, arguments: Sequence[bytes]) -> None:
    await connection.fetchval(_UNCONDITIONAL, *arguments)


def _head(height: int) -> bytes:
    return b"head-%d" % height


async def _frames(engine: PostgresEngine, count: int, beats: int, rounds: int) -> list[Row]:
    conditional, unconditional = (
        Worlds(count * 10_000, count, beats),
        Worlds(count * 10_000 + 5_000, count, beats),
    )
    await conditional.start(engine)
    await unconditional.start(engine)
    aborts = 0

    async def commit_all(batches: Sequence[Batch]) -> None:
        nonlocal aborts
        for at, batch in enumerate(batches):
            try:
                await engine.commit(batch)
            except (Unavailable, Conflict):
                aborts += len(batches) - at
                return

    async def write_all(rows: Sequence[Sequence[bytes]]) -> None:
        for arguments in rows:
            await engine._connections.use(partial(_write, arguments=arguments))

    async def ours(worlds: Sequence[Sequence[Batch]]) -> None:
        await asyncio.gather(*map(commit_all, worlds))

    async def theirs(worlds: Sequence[Sequence[Sequence[bytes]]]) -> None:
        await asyncio.gather(*map(write_all, worlds))

    await ours(conditional.batches())  # opens the connections and prepares the statements, outside the clock
    await theirs(unconditional.arguments())
    ours_s, theirs_s = await best_of_waiting(
        [Side(ours, conditional.batches), Side(theirs, unconditional.arguments)], rounds
    )
    case = "PostgreSQL, 1 world" if count == 1 else f"PostgreSQL, {count} worlds"
    return [
        ratio("engines", case, "frame commits vs unconditional statement", theirs_s / ours_s, FRAMES_MIN),
        none_of("engines", case, "aborts between unrelated worlds", aborts),
        measured("engines", case, "frame commits", count * beats / ours_s, "/s"),
    ]
