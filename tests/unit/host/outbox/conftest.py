"""A pool over a memory engine in virtual time, an adapter that counts, a world that only opens intents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from cellule.effects.adapter import Adapters, adapter
from cellule.host.outbox.pool import Pool, PoolOptions
from cellule.host.outbox.signatures import memory_key
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import VirtualClock, run
from cellule.testing.entropy import SeededEntropy
from tests.support.outbox import OutboxWorld


class Work(msgspec.Struct, frozen=True):
    number: int


class Worked(msgspec.Struct, frozen=True):
    number: int
    text: str = ""


class Bench:
    """What a test of the pool needs: store, world, clock, and pools that come and go."""

    def __init__(self, clock=None):
        self.disk = MemoryDisk()
        self.engine = MemoryEngine(self.disk)
        self.clock = clock or VirtualClock()
        self.entropy = SeededEntropy(7, "bench")
        self.key = memory_key(self.entropy)
        self.world = OutboxWorld(self.engine, self.key)
        self.performed = []
        self._news = asyncio.Event()

    def worker(self, do: Callable | None = None, kind="test.work", **limits):
        """An adapter that notes each attempt (number, key), then does `do(params, attempt)`."""

        @adapter(kind, **limits)
        async def work(params: Work, attempt) -> Worked:
            self.performed.append((params.number, attempt.key))
            self._news.set()
            return Worked(params.number) if do is None else await do(params, attempt)

        return work

    async def attempts(self, count):
        """Wait until so many attempts were begun."""
        while len(self.performed) < count:
            self._news.clear()
            await self._news.wait()

    def cas(self, universe):
        return Cas(self.engine, universe, entropy=self.entropy)

    @asynccontextmanager
    async def pool(self, *adapters, engine=None, **options):
        more = {name: options.pop(name) for name in ("arrived", "secrets", "may_begin") if name in options}
        pool = Pool(
            engine or self.engine, Adapters(adapters), self.key, self.cas, self.clock, self.entropy,
            options=PoolOptions(**options), **more,
        )  # fmt: skip
        async with pool.running():
            yield pool

    async def opened(self, pool, *openings):
        """Open intents and offer their rows."""
        made = await self.world.open(openings, self.clock.now_ns())
        pool.offer(made.stored)
        return [each.intent for each in openings]


@pytest.fixture
def play():
    """Run `main(bench)` in virtual time."""

    def played(main, seed=0):
        async def whole():
            return await main(Bench())

        return run(whole, seed=seed).result

    return played


@pytest.fixture
def work_types():
    return Work, Worked
