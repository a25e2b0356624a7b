"""Random families of worlds against a model, through crashes, on every kind of store.

A history is several sessions of a `Family`; some end in the middle of whatever is under way. At the end only
what is kept is stored, and every world is checked, verified, and restored from each of its snapshots. Half of
the families write diaries and erase them: not a word of those, erased or not, stands in a row or an object.
`CELLULE_EXAMPLES` sets the number of histories in memory, `CELLULE_CRASH=full` makes more of them elsewhere.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from cellule import App
from cellule.errors import Unavailable
from cellule.modules.python import PythonPrograms
from cellule.sources import SystemClock
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import Fate, Fault, FaultPlan, VirtualClock, run
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import Faults
from cellule.testing.faulty_engine import FaultyEngine
from cellule.testing.wire import Wire
from tests.support.diaries import MARK
from tests.support.families import DIARIES, TALLY, Family
from tests.support.memory_objects import MemoryObjects
from tests.support.nodes import check_store, open_node
from tests.support.retained import check_bounded, contents

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "60")) // 4
SEEDS = 12 if os.environ.get("CELLULE_CRASH") == "full" else 2
SESSIONS = 4
SLOW = Faults(delay=0.5)  # so that a session takes seconds, and is killed in the middle of something
FLAKY = Faults(delay=0.5, unavailable=0.01, unknown_applied=0.01, unknown_lost=0.01, unknown_late=0.01)
SESSION_NS = 3_600_000_000_000  # between two sessions: whoever collected in the last one is given up


class Sessions:
    """Sessions of one family on one store: `opened(engine)` are a node that owns it and a guest."""

    def __init__(self, seed: int, app: App, programs: PythonPrograms, objects=None) -> None:
        self.seed = seed
        self.app = app
        self.programs = programs
        self.objects = objects
        self._numbers = itertools.count()

    @asynccontextmanager
    async def opened(self, engine, clock):
        number = next(self._numbers)
        size = [500, 5_000, 1_000_000][self.seed % 3]

        def opened(owner: bool):
            entropy = SeededEntropy(self.seed, f"{number} {owner}")
            return open_node(
                engine, self.app.build(), self.programs, clock=clock, stall_s=0.1, snapshot_bytes=size,
                owner=owner, entropy=entropy, objects=self.objects,
            )  # fmt: skip

        async with opened(True) as node, opened(False) as guest:
            yield node, guest


async def ended(working: asyncio.Task[None], sign: asyncio.Future[None] | None) -> bool:
    """Let a session work until it ends, or until the sign to kill it; tell whether it was killed."""
    if sign is not None:
        await asyncio.wait([working, sign], return_when=asyncio.FIRST_COMPLETED)
        sign.cancel()
        working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return working.cancelled()


@pytest.fixture(scope="module")
def programs():
    loaded = PythonPrograms(limit_s=None)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_a_family_of_worlds_is_what_its_model_says(programs, seed, tmp_path):
    async def main():
        disk, wire = MemoryDisk(), Wire()
        family = Family(random.Random(seed), tmp_path, DIARIES if seed // 4 % 2 else TALLY)
        objects = MemoryObjects() if seed % 2 else None
        sessions = Sessions(seed, family.app.app, programs, objects)
        clock = VirtualClock()

        for number in range(SESSIONS):
            clock.jump(SESSION_NS)
            entropy = SeededEntropy(seed, str(number))
            faults = FLAKY if seed % 4 == 3 else SLOW
            engine = FaultyEngine(MemoryEngine(disk), faults, entropy=entropy, wire=wire)
            working = asyncio.ensure_future(_session(family, sessions.opened(engine, clock)))
            kill_s = family.rng.choice([None, family.rng.random() * 5, family.rng.random() * 20])
            sign = None if kill_s is None else asyncio.ensure_future(asyncio.sleep(kill_s))
            family.killed += await ended(working, sign)
            await wire.settle()  # what it had sent arrives, or never will
        clock.jump(SESSION_NS)
        async with sessions.opened(MemoryEngine(disk), clock) as (node, _):
            await family.finish(node)
            universe = (await node.node.universe()).id
            await check_bounded(MemoryEngine(disk), objects, universe, clock)
            await check_hidden(family, MemoryEngine(disk), objects)
        await check_store(MemoryEngine(disk), programs, objects)

    run(main, seed=seed)


class LaterClock(SystemClock):
    """The machine's clock, some hours ahead."""

    def __init__(self, hours: int) -> None:
        self._ahead_ns = hours * SESSION_NS

    def now_ns(self) -> int:
        return super().now_ns() + self._ahead_ns


@pytest.mark.parametrize("place", ["folder", "postgres and s3"], indirect=True)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_family_of_worlds_is_what_its_model_says_on_every_store(programs, place, seed, tmp_path):
    """Each session but the last dies at one of its commits; some of those were applied."""
    family = Family(random.Random(seed), tmp_path, DIARIES if seed % 2 else TALLY)
    async with place.open(family.app.app):
        pass
    for number in range(SESSIONS):
        async with place.store() as store:
            plan = FaultPlan(commit={family.rng.randrange(5, 150): Fault(_fate(family.rng))})
            engine = FaultyEngine(store.engine, plan)
            sessions = Sessions(seed * 100 + number, family.app.app, programs, store.objects)
            working = asyncio.ensure_future(_session(family, sessions.opened(engine, LaterClock(number))))
            family.killed += await ended(working, asyncio.ensure_future(engine.wait_crashed()))
    async with place.store() as store:
        sessions = Sessions(seed * 100 + SESSIONS, family.app.app, programs, store.objects)
        clock = LaterClock(SESSIONS)
        async with sessions.opened(store.engine, clock) as (node, _):
            await family.finish(node)
            universe = (await node.node.universe()).id
            await check_bounded(store.engine, store.objects, universe, clock)
            await check_hidden(family, store.engine, store.objects)
    assert family.killed


async def check_hidden(family: Family, engine, objects) -> None:
    """Texts of shelves are in the store as they were said, and nothing that a diary says is."""
    stored = await contents(engine, objects)
    assert MARK.encode() not in stored
    for text in (text for model in family.models.values() for (kind, _), text in model.cells.items()
                 if kind == "shelf"):  # fmt: skip
        assert text[:10].encode() in stored


async def _session(family: Family, opened) -> None:
    async with AsyncExitStack() as stack:
        try:
            nodes = await stack.enter_async_context(opened)
        except Unavailable:
            return  # the next one opens it
        await family.session(*nodes)


def _fate(rng: random.Random) -> Fate:
    return rng.choice([Fate.CRASH_APPLIED, Fate.CRASH_LOST])
