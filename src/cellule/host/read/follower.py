"""A private copy of a world that follows its journal, for readers that do not own it.

It starts at the baseline and applies frames as they become durable, so looking again costs only what is new;
when there is a newer baseline it starts there, so it keeps in memory what changed in one tail at most.
No user code runs, and nothing is written: the copy lives in memory and is dropped with its reader.

Rejected: restoring anew for every look. On a busy world each look would read the whole tail again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from cellule.errors import Corrupted
from cellule.host.cas_fetch import drive, fetch_nodes
from cellule.host.journal import Progress
from cellule.host.own.directory import WorldInfo, baseline_of
from cellule.host.read.journal_reader import JournalReader
from cellule.host.run.loader import Loader
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.cells import Entry
from cellule.kernel.world import Opened, World
from cellule.store import keys
from cellule.store.cas import Cas

T = TypeVar("T")


class Follower:
    """One world as of the newest frame it has looked at; `height` says which."""

    def __init__(self, loader: Loader, info: WorldInfo, cas: Cas) -> None:
        self.info = info
        self.cas = cas
        self.height = 0
        self.loader = loader
        self.journal = JournalReader(loader.engine, cas, info)
        self._opened: Opened | None = None
        self._nodes: Nodes | None = None
        self._world: World | None = None
        self._eras = 0
        self._base = 0  # the height of the baseline it started at
        self._turn = asyncio.Lock()

    async def world(self, progress: Progress | None = None) -> World:
        """The copy, caught up with the journal; one caller works on it at a time."""
        async with self._work():
            return await self._caught_up(progress)

    async def look(self, base: str, key: bytes) -> Entry | None:
        """A cell as of the newest durable frame."""
        async with self._work():
            world = await self._caught_up(None)
            answer: Any = world.look(base, key)
            while isinstance(answer, Need):
                answer = world.resume(await fetch_nodes(self.cas, answer.cids))
            found: Entry | None = answer
            return found

    async def ask(self, question: Callable[[World], Generator[Need, None, T]]) -> T:
        """Ask the copy something, as of the newest durable frame; nothing moves it meanwhile."""
        async with self._work():
            world = await self._caught_up(None)
            return await drive(question(world), world.ledger.nodes, self.cas)

    @asynccontextmanager
    async def _work(self) -> AsyncIterator[None]:
        """One caller at a time; a copy that failed may stand in the middle of a frame, and is made anew."""
        async with self._turn:
            try:
                yield
            except BaseException:
                self._opened = self._nodes = self._world = None
                raise

    async def _is_left_behind(self) -> bool:
        """Tell whether there is a newer baseline: starting there lets go of all that changed before."""
        [stored] = await self.loader.engine.read([keys.world_baseline(self.info.universe, self.info.id)])
        return stored is not None and baseline_of(stored)[0] > self._base

    async def _caught_up(self, progress: Progress | None) -> World:
        if self._opened is None or self._nodes is None or await self._is_left_behind():
            self._base, restoring = await self.loader.restoring(self.info, self.cas)
            self.height, self._world = self._base, None
            self._nodes = restoring.nodes
            self._opened = await drive(restoring.open(), self._nodes, self.cas)
        head = await self.journal.head()
        async for frame in self.journal.frames(self.height + 1, head.height):
            await drive(self._opened.apply(frame), self._nodes, self.cas)
            self.height = frame.header.last
            if progress is not None:
                progress(self.height, head.height)
        # A deploy was among the frames: its code has to be known before anybody reads.
        if self._world is None or len(self._world.ledger.eras) != self._eras:
            self._world = await drive(self._opened.world(), self._nodes, self.cas)
            self._eras = len(self._world.ledger.eras)
        if (self._world.ledger.height, self._world.ledger.frame) != (head.height, head.frame):
            raise Corrupted(
                "host.head_mismatch", "world {world}: the journal ends at {height}, its head says {head}",
                world=self.info.name, height=self._world.ledger.height, head=head.height,
                hint="Run `cellule check` on the folder.",
            )  # fmt: skip
        return self._world
