"""Searching the store for rows that nobody announced: at the start, after a repair, and what did not fit.

Ranges are walked by shard and priority, each from its oldest row to the first that is not due soon; there
the walk jumps to the next range, so rows that wait for a far retry cost one look a range. No cursor is kept:
a row may appear before one that was seen. Markers come first, for worlds that ended before they told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import NamedTuple

from cellule.errors import CelluleError, Corrupted, Rejected, Unavailable
from cellule.host.limits import CLOCK_LOOK_S
from cellule.host.outbox.backoff import SECOND_NS
from cellule.host.outbox.limits import SCAN_PAGE, SCAN_SHARE, UNREADABLE_KEPT
from cellule.host.outbox.rows import Stored, intent_of, marker_range, place_of, read_row, rows_range
from cellule.host.outbox.window import Window
from cellule.kernel.state.intent_id import intent_text
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.engine import Engine, Page
from cellule.store.sound_scan import sound_scan

_log = logging.getLogger("cellule.effects")


class Searcher:
    """Looks at the whole outbox from time to time, and when it is asked to.

    `found` takes rows, `marked` the intents that have markers.
    """

    def __init__(
        self, engine: Engine, clock: Clock, window: Window, every_s: float,
        found: Callable[[list[Stored]], None], marked: Callable[[list[bytes]], None],
    ) -> None:  # fmt: skip
        self._engine = engine
        self._clock = clock
        self._window = window
        self._every_s = every_s
        self._found = found
        self._marked = marked
        self._asked = asyncio.Event()
        self.unreadable: dict[bytes, None] = {}
        self.trouble: CelluleError | None = None

    def ask(self) -> None:
        """Search soon."""
        self._asked.set()

    @property
    def until_ns(self) -> int:
        """Rows that are due by then are worth holding."""
        return self._clock.now_ns() + int(self._every_s * SECOND_NS)

    async def run(self) -> None:
        """Search until cancelled; what fails is tried again with the next search."""
        while True:
            self._asked.clear()
            started_ns = self._clock.monotonic_ns()
            try:
                await self._search()
                self.trouble = None
            except (Unavailable, Corrupted) as error:
                self.trouble = error
            took_s = (self._clock.monotonic_ns() - started_ns) / SECOND_NS
            pause_s = max(self._every_s, took_s * SCAN_SHARE)
            if self._window.soon_ns is not None:
                pause_s = min(pause_s, max(0.0, (self._window.soon_ns - self._clock.now_ns()) / SECOND_NS))
            await wait_event(self._asked, pause_s)

    async def _search(self) -> None:
        async for intents in marked_intents(self._engine):
            self._marked(intents)
        self._window.search_begins()
        told, self.unreadable = self.unreadable, {}
        try:
            async for page in due_rows(self._engine, self.until_ns):
                self._found(page.rows)
                for at in page.unreadable[: UNREADABLE_KEPT - len(self.unreadable)]:
                    self.unreadable[at] = None
                    if at not in told:
                        _log.error(
                            "the outbox row %s cannot be read: `cellule effect repair` in the world of the"
                            " effect removes it, and writes it again", _shown(at),
                        )  # fmt: skip
                if page.next_ns is not None:
                    self._window.due_later(page.next_ns)
        finally:
            self._window.search_ends()


def _shown(at: bytes) -> str:
    """What the key of a row says: the effect, or its bytes."""
    try:
        return f"of {intent_text(place_of(at)[3])}"
    except (Rejected, ValueError):
        return at.hex()


class Found(NamedTuple):
    """One page: readable rows that are due, the keys of unreadable ones, and when the next is due."""

    rows: list[Stored]
    unreadable: list[bytes]
    next_ns: int | None


async def due_rows(engine: Engine, until_ns: int) -> AsyncIterator[Found]:
    """The rows that are ready at `until_ns` or before, page by page."""
    begin, end = rows_range()
    while True:
        page, damaged = await sound_scan(engine, begin, end, limit=SCAN_PAGE)
        rows: list[Stored] = []
        unreadable: list[bytes] = list(damaged)
        next_ns: int | None = None
        begin = _behind(page, damaged) or end
        for at, value in page.items:
            try:
                shard, priority, ready_ns, _ = place_of(at)
                if ready_ns > until_ns:
                    next_ns = ready_ns if next_ns is None else min(next_ns, ready_ns)
                    begin = max(begin, keys.effect_range(shard, priority)[1])
                    continue
                rows.append(read_row(at, value))
            except (Corrupted, Rejected, ValueError):
                unreadable.append(at)
        yield Found(rows, unreadable, next_ns)
        if not page.more or begin >= end:
            return


async def marked_intents(engine: Engine) -> AsyncIterator[list[bytes]]:
    """The intents that have a marker, page by page."""
    begin, end = marker_range()
    while True:
        page, damaged = await sound_scan(engine, begin, end, limit=SCAN_PAGE)
        yield [intent_of(key) for key in [*(key for key, _ in page.items), *damaged]]
        if not page.more:
            return
        begin = _behind(page, damaged)


def _behind(page: Page, damaged: Iterable[bytes]) -> bytes:
    """Where the next page begins; empty where this one had nothing."""
    last = max([key for key, _ in page.items[-1:]] + list(damaged)[-1:], default=b"")
    return last + b"\0" if last else b""


async def wait_event(event: asyncio.Event, most_s: float) -> None:
    """Wait for an event, but not longer than this, and never so long that a jump of the clock is missed."""
    try:
        async with asyncio.timeout(min(most_s, CLOCK_LOOK_S)):
            await event.wait()
    except TimeoutError:
        return
