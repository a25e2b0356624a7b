"""The way between handles and one store: commits that are still under way when nobody waits for them.

Invariant, the contract's statement about unknown outcomes: a commit under way is applied at most once, only
while its expectations hold, and never once a later commit that changed a key it expects has succeeded, even
if the key holds the old value again. All handles of a store share one wire, so that it sees all commits.

Rejected: a task group. These commits outlive the handle, and the caller, that sent them; that is their point.
`settle` waits for them, `close` ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from cellule.errors import Conflict, OutcomeUnknown, Unavailable
from cellule.store.engine import Batch, Engine, Stamp

T = TypeVar("T")


class Wire:
    """See the module."""

    def __init__(self) -> None:
        self._late: dict[asyncio.Task[None], Batch] = {}
        self._errands: dict[asyncio.Task[Any], None] = {}

    async def deliver(self, engine: Engine, batch: Batch) -> list[Stamp]:
        """Commit `batch` now; every commit of every handle goes through here."""
        try:
            stamps = await engine.commit(batch)
        except (Conflict, Unavailable) as error:
            if isinstance(error, OutcomeUnknown):
                self._overtake(batch)
            raise
        except BaseException:
            self._overtake(batch)  # cancelled, perhaps applied; a late commit may always be dropped
            raise
        self._overtake(batch)
        return stamps

    def send_late(self, engine: Engine, batch: Batch, delay_ns: int) -> None:
        """Commit `batch` after `delay_ns`, unless it is overtaken; nobody hears how it went."""
        task = asyncio.get_running_loop().create_task(self._arrive(engine, batch, delay_ns))
        self._late[task] = batch
        task.add_done_callback(self._forget)

    async def errand(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` to its end even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._errands[task] = None
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Return once nothing is under way any more."""
        while self._late or self._errands:
            await asyncio.wait([*self._late, *self._errands])

    async def close(self) -> None:
        """Drop every late commit, and finish the rest."""
        for task in self._late:
            task.cancel()
        await self.settle()

    async def _arrive(self, engine: Engine, batch: Batch, delay_ns: int) -> None:
        await asyncio.sleep(delay_ns / 1e9)
        try:
            await self.deliver(engine, batch)
        except (Conflict, Unavailable):
            return  # nobody is there to be told

    def _overtake(self, batch: Batch) -> None:
        """Drop the late commits that expect a key which `batch` changed."""
        me = asyncio.current_task()
        for task, late in list(self._late.items()):
            if task is not me and any(_changes(batch, key, value) for key, value in late.expect.items()):
                task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._late.pop(task, None)
        self._errands.pop(task, None)


def _changes(batch: Batch, key: bytes, value: bytes | None) -> bool:
    """Tell whether `batch` changed `key`, which held `value` before unless `batch` expected otherwise."""
    before = batch.expect.get(key, value)
    if key in batch.set:
        return batch.set[key] != before
    cleared = key in batch.clear or any(begin <= key < end for begin, end in batch.clear_range)
    return cleared and before is not None
