"""Ways to hand events to a world, for `ingest` on every store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from cellule.host.ingress.handles import WorldHandle

Send = Callable[[WorldHandle, list[Any]], Awaitable[None]]


def windowed(size: int) -> Send:
    """So many are handed over and not yet acknowledged."""

    async def send(world: WorldHandle, events: list[Any]) -> None:
        under_way: deque[Any] = deque()
        for event in events:
            if len(under_way) >= size:
                await under_way[0].wait()
                while under_way and under_way[0].finished:
                    under_way.popleft()
            under_way.append(await world.send_nowait(event))
        for sent in under_way:
            await sent.wait()

    return send


def in_halves(size: int) -> Send:
    """As many by `send_many`, from two tasks."""

    async def send(world: WorldHandle, events: list[Any]) -> None:
        async def work(first: int) -> None:
            for start in range(first, len(events), size):
                await world.send_many(events[start : start + size // 2])

        async with asyncio.TaskGroup() as tasks:
            for first in (0, size // 2):
                tasks.create_task(work(first))

    return send


def by_tasks(size: int) -> Send:
    """As many tasks, each with one event on its way."""

    async def send(world: WorldHandle, events: list[Any]) -> None:
        async def work(mine: list[Any]) -> None:
            for event in mine:
                await world.send(event)

        async with asyncio.TaskGroup() as tasks:
            for number in range(size):
                tasks.create_task(work(events[number::size]))

    return send


async def one_by_one(world: WorldHandle, events: list[Any]) -> None:
    """The next one after the answer."""
    for event in events:
        await world.send(event)
