"""Forks, compaction, collection, imports and deletions whose process ends at each durable operation in turn.

Each try has a universe of its own with the same worlds. One deed is done by a process that ends at its n-th
commit, put or delete, applied or not; or whose n-th fails once. Another process does the deed again: then
every world says what it said, only what is kept is stored, and all of it is proven.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count

import pytest

from cellule.errors import Gone, Rejected, Unavailable
from cellule.modules.python import PythonPrograms
from cellule.sources import SystemClock
from cellule.store.cas.rows import object_folder
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import VirtualClock, run
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import Fate
from tests.support.families import TALLY, shortened
from tests.support.last_operation import ENDS, FAILURES, LastOperation, wrapped
from tests.support.memory_objects import MemoryObjects
from tests.support.nodes import check_store, open_node
from tests.support.retained import check_bounded

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
HOUR_NS = 3_600_000_000_000
EVERY = {} if FULL else {"collect": 4, "compact": 2, "delete_universe": 3}  # their steps are alike
DONE = {
    "host.no_world",
    "host.world_exists",
    "host.no_universe",
    "host.universe_deleting",
}  # what a deed that was done is told again
TEXT = "x" * 40_000  # beyond a row where there is an object store

_numbers = count()


class LaterClock(SystemClock):
    """The machine's clock, hours ahead: a collector that ended is given up at once."""

    def __init__(self, hours: int) -> None:
        self._ahead_ns = hours * HOUR_NS

    def now_ns(self) -> int:
        return super().now_ns() + self._ahead_ns


class Stage:
    """One store, and how nodes are opened on it."""

    def __init__(self, engine, objects, programs, folder, clock) -> None:
        self.engine = engine
        self.objects = objects
        self.programs = programs
        self.folder = folder
        self.clock = clock

    @asynccontextmanager
    async def opened(self, last: LastOperation | None = None):
        engine, objects, number = self.engine, self.objects, next(_numbers)
        if last is not None:
            engine, objects = wrapped(engine, objects, last)
        async with open_node(
            engine, TALLY.app.build(), self.programs, clock=self.clock(number), stall_s=0.05,
            entropy=SeededEntropy(number, "node"), objects=objects,
        ) as node:  # fmt: skip
            yield node


class Trial:
    """One deed in a universe of its own."""

    def __init__(self, stage: Stage, deed: str) -> None:
        self.stage = stage
        self.deed = getattr(self, deed)
        self.universe = f"u{next(_numbers)}"
        self.file = stage.folder / f"{self.universe}.car"
        self.past = 0

    async def prepare(self) -> None:
        """A world with a past, one to delete, and one that is only a file any more."""
        async with self.stage.opened() as node:
            await node.create_universe(self.universe)
            self.id = (await node.node.universe(self.universe)).id
            world = await node.world("main", universe=self.universe)
            for number in range(2):
                await world.send(TALLY.Add("a", 1))
                await world.send(TALLY.Keep("s", f"{number}{TEXT}"))
                await world.snapshot()
            await world.send(TALLY.Add("a", 1))
            self.past = (await world.head()).height
            await world.send(TALLY.Add("a", 1))
            await world.snapshot()
            for name in ("old", "away"):
                other = await node.world(name, universe=self.universe)
                await other.send(TALLY.Keep("s", f"{name}{TEXT}"))
                await other.snapshot()
            await node.export_world("away", self.file, universe=self.universe)
            await node.delete_world("away", universe=self.universe)

    # Deeds

    async def fork(self, node) -> None:
        await node.fork_world("main", "child", universe=self.universe)

    async def fork_the_past(self, node) -> None:
        await node.fork_world("main", "child", at=self.past, universe=self.universe)

    async def compact(self, node) -> None:
        storage = await node.storage("main", universe=self.universe)
        await storage.retain(history="drop", snapshots=1)
        await (await node.world("main", universe=self.universe)).snapshot()
        await storage.compact(everything=True)

    async def collect(self, node) -> None:
        await node.collect_garbage(universe=self.universe, grace_s=0)

    async def import_world(self, node) -> None:
        await node.import_world(self.file, universe=self.universe)

    async def delete(self, node) -> None:
        await node.delete_world("old", universe=self.universe)

    async def delete_universe(self, node) -> None:
        for name in ("main", "old"):
            with suppress_done():
                await node.delete_world(name, universe=self.universe)
        await node.delete_universe(self.universe)

    # Around them

    async def meet(self, last: LastOperation) -> None:
        """Do the deed until the end of the process, or until it is told of the failure."""

        async def life() -> None:
            async with self.stage.opened(last) as node:
                last.armed = True
                with suppress(Unavailable):
                    await self.deed(node)
                if last.fate in ENDS and last.reached:
                    await asyncio.get_running_loop().create_future()  # the process is gone
                last.armed = False

        living = asyncio.ensure_future(life())
        while not living.done() and not (last.fate in ENDS and last.reached):
            await asyncio.wait([living], timeout=0.01)
        if not living.done():
            await asyncio.wait([living], timeout=0.01)
            living.cancel()
        with suppress(asyncio.CancelledError):
            await living

    async def _done(self, node) -> None:
        """Do the deed; a commit of the one that ended may come late, and take a collection's turn once."""
        try:
            await self.deed(node)
        except Unavailable as error:
            if error.code != "host.collection_taken":
                raise
            await self.deed(node)

    async def again(self) -> None:
        """Another process does it once more, and finds everything as it has to be."""
        async with self.stage.opened() as node:
            with suppress_done():
                await self._done(node)
            if self.deed == self.delete_universe:
                await self._check_nothing()
                return
            assert await self._cells(node, "main") == shortened(
                {("account", "a"): 4, ("shelf", "s"): f"1{TEXT}"}
            )
            others = {
                "fork": ({("account", "a"): 4, ("shelf", "s"): f"1{TEXT}"}, "child"),
                "fork_the_past": ({("account", "a"): 3, ("shelf", "s"): f"1{TEXT}"}, "child"),
                "import_world": ({("shelf", "s"): f"away{TEXT}"}, "away"),
            }
            if self.deed.__name__ in others:
                cells, name = others[self.deed.__name__]
                assert await self._cells(node, name) == shortened(cells)
            names = {each.name for each in await node.worlds(self.universe)}
            assert ("old" in names) == (self.deed != self.delete)
            for _ in range(2):
                await node.collect_garbage(universe=self.universe, grace_s=0)
            await check_bounded(self.stage.engine, self.stage.objects, self.id, node.node.clock)

    async def _cells(self, node, name) -> dict:
        world = await node.world(name, universe=self.universe, create=False)
        await world.send(TALLY.Ask("b"))  # it works
        found = {}
        for module, key in ((TALLY.account, "a"), (TALLY.shelf, "s")):
            state = await world.cell(module, key).state()
            if state is not None:
                found[module.__name__, key] = getattr(state, "total", None) or getattr(state, "text", None)
        return shortened(found)

    async def _check_nothing(self) -> None:
        async for page in self.stage.engine.rows():
            assert not [key for key, value in page if self.id.bytes in key or self.id.bytes in value]
        if self.stage.objects is not None:
            assert not (await self.stage.objects.list(object_folder(self.id), limit=1)).items


def virtual_clock(hours: int) -> VirtualClock:
    clock = VirtualClock()
    clock.jump(hours * HOUR_NS)
    return clock


@contextmanager
def suppress_done():
    """What was done already is refused with one of these codes."""
    try:
        yield
    except (Rejected, Gone) as error:
        if error.code not in DONE:
            raise


async def every_end(stage: Stage, deed: str, every: int, failures: tuple[Fate, ...] = ()) -> int:
    """Try each operation, or every so many of them; returns about how many the deed has.

    At each the process ends before and after it, or one of the failures happens, in turn.
    """
    number = 1
    for turn in count():
        for fate in (*ENDS, *failures[turn % 3 :][:1]):
            trial, last = Trial(stage, deed), LastOperation(number, fate)
            await trial.prepare()
            await trial.meet(last)
            await trial.again()
        if not last.reached:
            break
        number += every
    return number - 1


DEEDS = {  # at least so many durable operations
    "fork": 2, "fork_the_past": 2, "compact": 4, "collect": 10, "import_world": 2, "delete": 4,
    "delete_universe": 8,
}  # fmt: skip


STRIDES = {**dict.fromkeys(DEEDS, 1), "compact": 2, "delete": 2, "collect": 6, "delete_universe": 6}


@pytest.fixture(scope="module")
def programs():
    loaded = PythonPrograms(limit_s=None)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("objects", ["with the rows", "in objects"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_process_that_ends_anywhere_in_a_deed_harms_nothing(programs, tmp_path, deed, objects):
    async def main():
        where = MemoryObjects() if objects == "in objects" else None
        stage = Stage(MemoryEngine(MemoryDisk()), where, programs, tmp_path, virtual_clock)
        assert await every_end(stage, deed, EVERY.get(deed, 1), FAILURES) >= DEEDS[deed]
        await check_store(stage.engine, programs, where)

    run(main, seed=1)


@pytest.mark.parametrize("place", ["folder", "postgres and s3"], indirect=True)
@pytest.mark.parametrize("deed", DEEDS)
async def test_a_process_that_ends_anywhere_in_a_deed_harms_nothing_on_every_store(
    programs, place, tmp_path, deed
):
    async with place.open(TALLY.app):
        pass
    async with place.store() as store:
        stage = Stage(store.engine, store.objects, programs, tmp_path, LaterClock)
        await every_end(stage, deed, 1 if FULL else STRIDES[deed] * (2 if place.kind == "folder" else 4))
