"""Many transfers at once, a bounded number of them under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from cellule.store.cas.contract import TRANSFERS_MAX


async def all_of(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Await every call, at most `TRANSFERS_MAX` at a time; the first failure stops the rest and is raised."""
    if len(calls) == 1:
        await calls[0]()
        return
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(TRANSFERS_MAX, len(calls))):
                group.create_task(work())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
