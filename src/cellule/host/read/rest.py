"""Whether a world has anything to do: events in queues, due timers, open effects, items on their way to it.

Cells that were stopped, effects that wait for an approval and timers of a later time are no work: nothing
happens to them until somebody, or time, comes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from cellule.errors import Fenced
from cellule.host.journal import Head
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.host.read.reader import Reader
from cellule.host.store_retry import reading
from cellule.kernel.need import Need
from cellule.kernel.world import World
from cellule.store import keys


@dataclass(slots=True)
class Busy:
    """What a world has to do."""

    cells: int = 0  # with events that wait for their turn
    events: int = 0  # emitted, and not yet at their cells
    effects: dict[str, int] = field(default_factory=dict)  # open, by module
    inbox: int = 0
    due: bool = False
    paused: bool = False

    def __bool__(self) -> bool:
        return bool(self.cells or self.events or self.effects or self.inbox or self.due)

    def __str__(self) -> str:
        effects = sum(self.effects.values())
        parts = [
            f"{self.cells} cells have events" if self.cells else "",
            f"{self.events} emitted events are on their way" if self.events else "",
            f"{effects} effects of {', '.join(sorted(self.effects))} are open" if effects else "",
            "its inbox has items" if self.inbox else "",
            "timers are due" if self.due else "",
            "the world is paused" if self.paused else "",
        ]
        return ", ".join(part for part in parts if part)


class RestWait:
    """Waits until a world has nothing to do; `busy` is what it had when it was last looked at."""

    def __init__(self, node: Node, info: WorldInfo, reader: Reader) -> None:
        self._node = node
        self._info = info
        self._reader = reader
        self.busy: Busy | None = None

    async def until_idle(self) -> None:
        """Return once nothing is queued, due, open or on its way."""
        while True:
            with reading():
                await self._settled_here()
                head = await self._reader.journal.head()
                self.busy = await self._reader.ask(_look)
                self.busy.due = head.wake_ns is not None and head.wake_ns <= self._node.clock.now_ns()
                row = await self._inbox_row()
                self.busy.inbox = int(row is not None)
                if not self.busy:
                    return
                await self._change(head, row)

    async def _settled_here(self) -> None:
        """On the owner, wait until its beats have nothing more to do."""
        if self._node.may_act():
            try:
                await (await self._node.hosted(self._info)).wait_rest()
            except Fenced:
                return

    async def _inbox_row(self) -> tuple[bytes, bytes] | None:
        begin, end = keys.inbox_range(self._info.universe, self._info.id)
        page = await self._node.engine.scan(begin, end, limit=1)
        return page.items[0] if page.items else None

    async def _change(self, head: Head, row: tuple[bytes, bytes] | None) -> None:
        """Wait for the next frame, or until the first row of the inbox is taken, which may need no frame."""
        if row is not None:
            await self._reader.watch_row(*row)
        else:
            await self._reader.next_head(head)


def _look(world: World) -> Generator[Need, None, Busy]:
    yield from ()
    ledger = world.ledger
    held = sum(map(len, ledger.held.values()))
    return Busy(len(ledger.ring) + held, len(ledger.pending), dict(ledger.book.counts), paused=ledger.paused)
