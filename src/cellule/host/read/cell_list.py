"""What a world holds, as of its newest durable frame: cells in pages, counts, and everything that is stuck.

Cells stand in the order of their keys' bytes. A page begins with a key, so it stays good as a world goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cellule.errors import CelluleError, Corrupted, Rejected, StepFailed
from cellule.host.cas_fetch import drive
from cellule.host.codecs import WorldCodecs
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.journal import Progress
from cellule.host.limits import CELLS_SCAN_MAX
from cellule.host.read.cell_filter import CellFilter, status_of
from cellule.host.read.follower import Follower
from cellule.host.read.reader import Reader
from cellule.kernel.index import prefix_end
from cellule.kernel.limits import CELL_PAGE_BYTES
from cellule.kernel.need import Need
from cellule.kernel.state.cell_pages import CellPage as EntryPage
from cellule.kernel.state.cell_pages import count_cells, page_of_cells
from cellule.kernel.state.cells import Entry
from cellule.kernel.world import World
from cellule.store import keys
from cellule.values.expressions import ExpressionFault
from cellule.values.sealed_value import is_sealed

S = TypeVar("S")
T = TypeVar("T")

START = b""
PAGE_MAX = 1_000
SCAN_PAGE = 500  # cells looked at in one piece, between two beats
INBOX_COUNT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of a module that begin with a prefix and lie in `[start, end)`, after one of them."""

    prefix: str | bytes | None = None
    start: Any = None
    end: Any = None
    after: Any = None

    def of(self, types: WorldCodecs, base: str) -> tuple[bytes, bytes | None]:
        """The first key's bytes, and those of the first key beyond; None = to the end."""
        prefix = b"" if self.prefix is None else types.typed_key(base).prefix_bytes(self.prefix)
        begins = [prefix]
        ends = [each for each in (prefix_end(prefix),) if each is not None]
        if self.start is not None:
            begins.append(types.key(base, self.start))
        if self.after is not None:
            begins.append(types.key(base, self.after) + b"\0")
        if self.end is not None:
            ends.append(types.key(base, self.end))
        return max(begins), min(ends, default=None)


@dataclass(frozen=True, slots=True)
class ListedCell(Generic[S]):
    """One cell of a list."""

    key: Any
    state: S | None
    version: int
    size: int  # bytes of the state; of a log, all of it
    status: str
    queue: int
    born: int
    era: int
    active_ns: int
    height: int
    error: str = ""  # why the state cannot be read as the newest schema, where it cannot


@dataclass(frozen=True, slots=True)
class CellPage(Generic[S]):
    """Some cells of a module in the order of their keys; `next` is what the next page comes `after`.

    With `where` a page may end before its limit, even without cells: as long as there is a `next`, there are
    cells that were not looked at. `scanned` is how many were; `failed` of how many `where` gave no answer
    but an error, of which `failure` is the first.
    """

    cells: list[ListedCell[S]]
    next: Any | None
    scanned: int = 0
    failed: int = 0
    failure: str = ""


async def read_cells(
    reader: Reader, types: WorldCodecs, base: str, within: KeyRange, limit: int, where: str | None = None
) -> CellPage[Any]:
    """Up to `limit` cells of a module whose keys lie in a range, and that `where` is true of."""
    check_limit(limit)
    begin, end = within.of(types, base)
    found = await scan_cells(reader, types, base, (begin, end), limit, where)
    cells = [
        ListedCell(
            _key_value(types, base, key), state, entry.version, entry.size, status_of(entry),
            len(entry.get("queue", ())), entry.born, entry.era, entry.active_ns, entry.last, error,
        )
        for key, entry, state, error in found.cells
    ]  # fmt: skip
    after = None if found.last is None else _key_value(types, base, found.last)
    return CellPage(cells, after, found.scanned, found.failed, found.failure)


@dataclass(slots=True)
class Scanned:
    """Cells that were looked at: those that are meant, and how far it went; `last` is None at the end."""

    cells: list[tuple[bytes, Entry, Any, str]]  # key, entry, state for the caller, why it cannot be read
    last: bytes | None = None
    scanned: int = 0
    failed: int = 0
    failure: str = ""

    def skip(self, types: WorldCodecs, base: str, key: bytes, why: object) -> None:
        """Note that `where` gave no answer for a cell."""
        self.failed += 1
        self.failure = self.failure or f"{types.typed_key(base).text(key) or base}: {why}"


async def scan_cells(
    reader: Reader, types: WorldCodecs, base: str, within: tuple[bytes, bytes | None], limit: int,
    where: str | None, *, with_states: bool = True,
) -> Scanned:  # fmt: skip
    """Look at cells until `limit` are found, the range ends, or `CELLS_SCAN_MAX` were looked at."""
    chosen = None
    if where is not None:
        chosen = CellFilter(where, types.state_targets(await reader.manifest())[0], base)
    found = Scanned([])
    following: bytes | None = within[0]
    while following is not None:
        begin, count = following, limit if chosen is None else min(SCAN_PAGE, CELLS_SCAN_MAX - found.scanned)
        page: EntryPage = await reader.ask(
            lambda world, begin=begin, count=count: page_of_cells(  # type: ignore[misc]
                world.ledger, base, begin, within[1], count, with_states=with_states or chosen is not None
            )
        )
        following = page.next
        for key, entry in page.entries:
            found.last = key
            found.scanned += 1
            if with_states or chosen is not None:
                await _take(found, reader, types, base, (key, entry), chosen)
            else:
                found.cells.append((key, entry, None, ""))
            if len(found.cells) == limit or found.scanned == CELLS_SCAN_MAX:
                is_end = following is None and key == page.entries[-1][0]
                found.last = None if is_end else key
                return found
        if chosen is None or sum(entry.size for _, entry, _, _ in found.cells) >= CELL_PAGE_BYTES:
            break
        await asyncio.sleep(0)  # evaluating many cells keeps nobody waiting
    if following is None:
        found.last = None
    return found


async def _take(
    found: Scanned, reader: Reader, types: WorldCodecs, base: str, cell: tuple[bytes, Entry],
    chosen: CellFilter | None,
) -> None:  # fmt: skip
    """Add a cell to those found, if it is meant."""
    key, entry = cell
    try:
        data = await reader.state_bytes(entry)
        if data is None:
            if chosen is None:
                found.cells.append((key, entry, None, ""))
            return
        if is_sealed(data) and chosen is None:
            found.cells.append((key, entry, await reader.erased(data, types), ""))
            return
        manifest, data = await reader.newest_state(base, entry.era, data, types)
    except (StepFailed, Rejected, Corrupted) as error:
        # A list shows what it cannot read; a filter leaves it out, and says so.
        if chosen is not None:
            found.skip(types, base, key, error)
        else:
            found.cells.append((key, entry, None, str(error)))
        return
    if chosen is not None:
        try:
            if not chosen.matches(types.typed_key(base).wire(key), entry, data):
                return
        except ExpressionFault as fault:
            found.skip(types, base, key, fault)
            return
    found.cells.append((key, entry, types.state(base, manifest, data), ""))


def check_limit(limit: int) -> None:
    """Refuse a page that is empty or too long."""
    if not 1 <= limit <= PAGE_MAX:
        raise Rejected(
            "host.page_limit", "a page has 1 to {most} cells, not {limit}", limit=limit, most=PAGE_MAX
        )


def _key_value(types: WorldCodecs, base: str, key: bytes) -> Any:
    """A key for the caller; one that the current manifest has another type for comes as its bytes."""
    try:
        return types.typed_key(base).value(key)
    except (CelluleError, UnicodeDecodeError):
        return key


@dataclass(frozen=True, slots=True)
class Stopped:
    """A cell that does not run until somebody does something."""

    base: str
    key: bytes
    status: str
    since: int
    code: str
    text: str
    queue: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """What keeps a world's cells from running until a person does something; effects are not in here."""

    paused: bool
    inbox: int
    stopped: list[Stopped]


class Listing:
    """One world's cells at `height`; made by `list_world`."""

    def __init__(self, follower: Follower, world: World) -> None:
        self._follower = follower
        self._world = world
        self._keys = ErasureKeys(follower.loader.engine, follower.info.universe)
        self.height = world.ledger.height
        self.now_ns = world.ledger.now_ns
        self.paused = world.ledger.paused
        self.eras = list(world.ledger.eras)

    async def counts(self) -> dict[str, int]:
        """How many cells each module that has any has."""
        found = {}
        for base in sorted(self._world.ledger.modules):
            count = await self._ask(count_cells(self._world.ledger, base))
            if count:
                found[base] = count
        return found

    @property
    def over_budget(self) -> dict[str, tuple[int, int]]:
        """The modules with as many open effects as they may have: how many, and how many cells wait."""
        ledger = self._world.ledger
        return {
            base: (ledger.book.counts.get(base, 0), len(ledger.held.get(base, ())))
            for base in ledger.book.over
        }

    async def page(self, base: str, begin: bytes, end: bytes | None, limit: int) -> EntryPage:
        """Up to `limit` cells of a module with keys of `[begin, end)`, without linked states."""
        check_limit(limit)
        page: EntryPage = await self._ask(
            page_of_cells(self._world.ledger, base, begin, end, limit, with_states=False)
        )
        return page

    async def stuck(self, limit: int = 100) -> Stuck:
        """The oldest stopped cells, up to `limit`."""
        rows = await self._ask(self._world.ledger.stopped.scan(b"", None, limit))
        stopped = [await self._stopped(row.module, row.key) for _, row in rows]
        return Stuck(self.paused, await self._inbox(), stopped)

    async def _ask(self, question: Generator[Need, None, T]) -> T:
        return await drive(question, self._world.ledger.nodes, self._follower.cas)

    async def _stopped(self, base: str, key: bytes) -> Stopped:
        entry = await self._follower.look(base, key)
        more: dict[str, Any] = (entry.extras if entry is not None else None) or {}
        return Stopped(
            base, key, more.get("status", "stopped"), more.get("since", 0), more.get("code", ""),
            await self._keys.opened_text(more.get("text", "")), len(more.get("queue", ())),
        )  # fmt: skip

    async def _inbox(self) -> int:
        info = self._follower.info
        begin, end = keys.inbox_range(info.universe, info.id)
        page = await self._follower.loader.engine.scan(begin, end, limit=INBOX_COUNT_MAX)
        return len(page.items)


async def list_world(follower: Follower, progress: Progress | None = None) -> Listing:
    """Look at a whole world; the copy stays where it is until the listing is dropped."""
    return Listing(follower, await follower.world(progress))
