"""The handle of one cell: its state now and in the past, its history, and waiting for it to change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Generic, Protocol, TypeVar, overload

from cellule.errors import readable
from cellule.host.codecs import WorldCodecs
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.outcomes import CellView
from cellule.host.ingress.waits import CellWait, within
from cellule.host.limits import HISTORY_MAX
from cellule.host.read.history import History, HistoryReader
from cellule.host.read.reader import Reader
from cellule.kernel.state.wait_reasons import reason_of

S = TypeVar("S")


class CellReads(Protocol):
    """What a cell's handle needs of its world's."""

    types: WorldCodecs
    reader: Reader

    @property
    def name(self) -> str:
        """The world's name."""

    async def height_at(self, when: datetime) -> int:
        """The height of the last record made at or before an aware time."""

    async def wait_reason(self, module: str, key: bytes) -> str:
        """What a cell waits for, in words."""


@checked_calls()
class CellHandle(Generic[S]):
    """One cell of a world, by module and key."""

    def __init__(self, world: CellReads, base: str, key: bytes) -> None:
        self._world = world
        self.module = base
        self.key = key

    def __repr__(self) -> str:
        return f"<cell {self.module} {readable(self.key)} of world {self._world.name}>"

    async def view(self, *, at: int | datetime | None = None) -> CellView[S] | None:
        """The cell now, or as of a height or an aware time; None where there is none."""
        if isinstance(at, datetime):
            at = await self._world.height_at(at)
        reader, types = self._world.reader, self._world.types
        found = await reader.cell(self.module, self.key, at, types)
        if found is None:
            return None
        entry, state = found
        if at is None:
            reason = await self._world.wait_reason(self.module, self.key)
        else:
            stopped = reason_of(entry, is_ready=True, paused=False, is_held=False)
            reason = "" if stopped is None else stopped.beside_status
        return CellView(
            state, entry.version, entry.born, entry.era, entry.active_ns, entry.last,
            entry.get("status", "waiting"), reason, len(entry.get("queue", ())), entry.size,
        )  # fmt: skip

    async def state(self, *, at: int | datetime | None = None) -> S | None:
        """The cell's state now, or as of a height or an aware time; None where there is none."""
        if isinstance(at, datetime):
            at = await self._world.height_at(at)
        reader, types = self._world.reader, self._world.types
        found = await reader.cell(self.module, self.key, at, types)
        state: S | None = None if found is None else found[1]
        return state

    @overload
    async def wait_until(self, condition: str, *, timeout: float | None = None) -> S: ...

    @overload
    async def wait_until(
        self, condition: Callable[[S | None], object], *, timeout: float | None = None
    ) -> S | None: ...

    async def wait_until(
        self, condition: str | Callable[[S | None], object], *, timeout: float | None = None
    ) -> S | None:
        """Wait until a condition holds for the cell, and return its state.

        The condition is CEL as in `world.cells(where=...)`, which no cell without a state fulfils, or a
        function of the state, which gets None where there is no cell. It is asked whenever the cell has
        changed, and may miss states between two looks. Raises `TimedOut` with the last state.
        """
        wait = CellWait(self._world.reader, self._world.types, self.module, self.key)
        async with within(timeout, lambda: wait.timed_out(self._world.name, condition, timeout)):
            state: S | None = await wait.until(condition)
            return state

    async def history(self, *, limit: int = HISTORY_MAX, before: int | None = None) -> History[S]:
        """The cell's steps below the height `before`, newest first, of all its lives.

        `before=page.next` gives the page that follows, until `next` is None. For what was before a birth a
        page looks at a bounded part of the journal, so it may be short.
        """
        reader = HistoryReader(self._world.reader, self._world.types, self.module, self.key)
        return await reader.page(limit, before)
