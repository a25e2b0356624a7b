"""Waiting for a cell to be as wanted, for a world to have nothing to do, and no longer than somebody wants.

A wait is woken by the journal: a new frame, a row that was taken. Nothing here asks again and again.

Rejected: waiting for frames that name the cell. On a busy world every waiter would read every frame; looking
at one cell costs less.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import Any

from cellule.errors import CelluleError, OutcomeUnknown, Rejected, TimedOut, readable
from cellule.host.codecs import WorldCodecs
from cellule.host.ingress.arguments import check_timeout
from cellule.host.own.directory import WorldInfo
from cellule.host.read.cell_filter import CellFilter
from cellule.host.read.reader import Reader
from cellule.host.read.rest import Busy
from cellule.host.store_retry import reading
from cellule.kernel.items import EventItem
from cellule.kernel.state.cells import Entry
from cellule.values.expressions import ExpressionFault
from cellule.values.words import type_name

STATE_CHARS_MAX = 400  # of the last state in a message

Condition = str | Callable[[Any], object]


@asynccontextmanager
async def within(timeout: float | None, timed_out: Callable[[], CelluleError]) -> AsyncIterator[None]:
    """Give up after so many seconds, with this error."""
    limit = asyncio.timeout(check_timeout(timeout))
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise timed_out() from error


def check_condition(condition: object) -> None:
    """Refuse what cannot be asked: a coroutine would count as true without having run."""
    if callable(condition) and not iscoroutinefunction(condition):
        return
    raise Rejected(
        "host.condition", "a condition is CEL text or a function of the state, not {found}",
        found="an `async def`" if callable(condition) else type_name(condition),
        hint="Write wait_until('state.paid') or wait_until(lambda order: order is not None).",
    )  # fmt: skip


class CellWait:
    """Waits for one cell; `seen` is the last state it had."""

    def __init__(self, reader: Reader, types: WorldCodecs, base: str, key: bytes) -> None:
        self._reader = reader
        self._types = types
        self._base = base
        self._key = key
        self.seen: Any = None
        self._entry: Entry | None = None
        self._fault = ""

    async def until(self, condition: Condition) -> Any:
        """Wait until the condition holds, and return the state that it holds for."""
        chosen = None
        if isinstance(condition, str):
            manifest = self._types.state_targets(await self._reader.manifest())[0]
            chosen = CellFilter(condition, manifest, self._base)
        else:
            check_condition(condition)
        is_first = True
        while True:
            head = await self._reader.journal.head()
            entry = await self._reader.entry(self._base, self._key)
            # Most frames are about other cells: the condition is asked only when this one has changed.
            if is_first or entry != self._entry:
                is_first, self._entry = False, entry
                if await self._holds(condition, chosen):
                    return self.seen
            with reading():
                await self._reader.next_head(head)

    async def _holds(self, condition: Condition, chosen: CellFilter | None) -> bool:
        entry = self._entry
        data = None if entry is None else await self._reader.state_bytes(entry)
        if entry is None or data is None:
            self.seen = None
            return chosen is None and bool(condition(None))  # type: ignore[operator]
        manifest, data = await self._reader.newest_state(self._base, entry.era, data, self._types)
        self.seen = self._types.state(self._base, manifest, data)
        if chosen is None:
            return bool(condition(self.seen))  # type: ignore[operator]
        try:
            return chosen.matches(self._types.typed_key(self._base).wire(self._key), entry, data)
        except ExpressionFault as fault:  # another state may have what this one has not
            self._fault = str(fault)
            return False

    def timed_out(self, world: str, condition: Condition, timeout: float | None) -> TimedOut:
        """The error of a wait that took too long."""
        wanted = condition if isinstance(condition, str) else "the condition"
        shown = "it does not exist" if self.seen is None else f"its last state is {self.seen!r}"
        if len(shown) > STATE_CHARS_MAX:
            shown = shown[: STATE_CHARS_MAX - 3] + "..."
        return TimedOut(
            "host.wait_timeout", "{wanted} did not come true of cell {module}/{key} in world {world} within "
            "{seconds} s: {shown}{fault}.",
            wanted=wanted, module=self._base, key=readable(self._key), world=world, seconds=timeout,
            shown=shown, fault=f" ({self._fault})" if self._fault else "", state=self.seen,
            hint="`cellule cell show` says what it waits for.",
        )  # fmt: skip


def idle_timed_out(info: WorldInfo, busy: Busy | None, timeout: float | None) -> TimedOut:
    """The error of a wait for a world that still has something to do."""
    return TimedOut(
        "host.idle_timeout", "world {world} still had something to do after {seconds} s: {busy}.",
        world=info.name, seconds=timeout, busy="it has not answered" if busy is None else str(busy),
        hint="`cellule stuck` and `cellule effect list` say what waits for whom.",
    )  # fmt: skip


def send_timed_out(world: str, item: EventItem, timeout: float | None) -> OutcomeUnknown:
    """The error of a send that took too long: the event is on its way, and may be applied later."""
    known = "Send it again with the same id, or wait for it: wait_applied(id)."
    return OutcomeUnknown(
        "host.send_timeout", "the outcome of {schema} in world {world} did not come within {seconds} s",
        schema=item.schema, world=world, seconds=timeout, id=item.id,
        hint=known if item.id is not None else "It may be applied yet. Give events an id to send them again.",
    )  # fmt: skip
