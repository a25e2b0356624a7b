"""Questions to a world at work: answered between beats, released when what they saw is durable.

A question is asked in the beat loop, so that it never meets a beat that waits for nodes. Whoever waits is
told when the world ends or the store fails for long. What a question itself raises is for the one who asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

from cellule.errors import CelluleError, Corrupted, Fenced, InvariantBroken, Unavailable
from cellule.kernel.need import Need
from cellule.kernel.world import World
from cellule.values.cid import Cid

Question = Callable[[], Any]
"""Answers as a world's methods do, with `Need` on the way; or gives a generator that yields it."""

Fetch = Callable[[Need], Awaitable[Mapping[Cid, bytes]]]


class Questions:
    """Those who read a world, and those who wait for a beat to be durable."""

    def __init__(self, world: World, fetch: Fetch) -> None:
        self._world = world
        self._fetch = fetch
        self._asked: deque[tuple[Question, asyncio.Future[tuple[int, Any]]]] = deque()
        self._beats: list[tuple[int, asyncio.Future[None]]] = []
        self._rests: list[asyncio.Future[None]] = []

    def renew(self, world: World) -> None:
        """The world was restored: questions are put to it now."""
        self._world = world

    @property
    def waiting(self) -> bool:
        """Tell whether there are questions to answer."""
        return bool(self._asked)

    def put(self, question: Question) -> asyncio.Future[tuple[int, Any]]:
        """Ask; the future has the beat the answer saw, and the answer."""
        future: asyncio.Future[tuple[int, Any]] = asyncio.get_running_loop().create_future()
        self._asked.append((question, future))
        return future

    async def answer(self, beat: int) -> None:
        """Answer all, as of the newest beat."""
        while self._asked:
            question, future = self._asked[0]  # it stays until it is answered, for `refuse` to find
            try:
                found = await self._found(question())
            except Exception as error:
                if isinstance(error, Fenced | Corrupted | Unavailable | InvariantBroken):
                    raise  # it says something about the world
                self._asked.popleft()
                if not future.done():
                    future.set_exception(error)  # whoever asked so is told, and the world goes on
                continue
            self._asked.popleft()
            if not future.done():
                future.set_result((beat, found))

    async def _found(self, answer: Any) -> Any:
        while isinstance(answer, Need):
            answer = self._world.resume(await self._fetch(answer))
        if not isinstance(answer, Generator):
            return answer
        try:
            while True:
                self._world.ledger.nodes.add(await self._fetch(next(answer)))
        except StopIteration as stop:
            return stop.value

    async def until(self, beat: int) -> None:
        """Wait for `release` of this beat."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._beats.append((beat, future))
        await future

    def release(self, beat: int) -> None:
        """Everything up to this beat is durable."""
        if not self._beats:
            return
        ready = [future for number, future in self._beats if number <= beat]
        self._beats = [(number, future) for number, future in self._beats if number > beat]
        for future in ready:
            if not future.done():
                future.set_result(None)

    async def until_rest(self) -> None:
        """Wait until the world has nothing more to do."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rests.append(future)
        await future

    def rests(self) -> None:
        """The world has nothing to do now."""
        while self._rests:
            future = self._rests.pop()
            if not future.done():
                future.set_result(None)

    def refuse(self, error: CelluleError) -> None:
        """Tell everyone who waits that there is no answer."""
        waiting: list[asyncio.Future[Any]] = [future for _, future in self._beats]
        waiting += [future for _, future in self._asked]
        waiting += self._rests
        self._beats.clear()
        self._rests.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
