"""What a world holds, as of its newest durable frame: cells in pages, counts, and everything that is stuck.

Cells stand in the order of their keys' bytes. A page begins with a key, so it stays good as a world goes on.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from cellule.errors import CelluleError, Rejected
from cellule.host.cas_fetch import drive
from cellule.host.codecs import WorldCodecs
from cellule.host.journal import Progress
from cellule.host.read.follower import Follower
from cellule.host.read.reader import Reader
from cellule.kernel.index import prefix_end
from cellule.kernel.need import Need
from cellule.kernel.state.cell_pages import CellPage as EntryPage
from cellule.kernel.state.cell_pages import count_cells, page_of_cells
from cellule.kernel.state.cells import Entry
from cellule.kernel.world import World
from cellule.store import keys

T = TypeVar("T")

START = b""
PAGE_MAX = 1_000
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
class ListedCell:
    """One cell of a list."""

    key: Any
    state: Any
    version: int
    size: int  # bytes of the state; of a log, all of it
    status: str
    queue: int
    born: int
    era: int
    active_ns: int
    height: int


@dataclass(frozen=True, slots=True)
class CellPage:
    """Some cells of a module in the order of their keys; `next` is what the next page comes `after`."""

    cells: list[ListedCell]
    next: Any | None


async def read_cells(reader: Reader, types: WorldCodecs, base: str, within: KeyRange, limit: int) -> CellPage:
    """Up to `limit` cells of a module whose keys lie in a range."""
    check_limit(limit)
    begin, end = within.of(types, base)
    page: EntryPage = await reader.ask(lambda world: page_of_cells(world.ledger, base, begin, end, limit))
    cells = []
    for key, entry in page.entries:
        state = None
        if isinstance(entry.state, bytes):
            state = types.state(base, await reader.manifest(entry.era), entry.state)
        cells.append(ListedCell(
            _key_value(types, base, key), state, entry.version, entry.size, status_of(entry),
            len(entry.get("queue", ())), entry.born, entry.era, entry.active_ns, entry.last,
        ))  # fmt: skip
    return CellPage(cells, cells[-1].key if page.next is not None and cells else None)


def status_of(entry: Entry) -> str:
    """`waiting`, or why the cell does not run."""
    return str(entry.get("status", "waiting"))


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
            more.get("text", ""), len(more.get("queue", ())),
        )  # fmt: skip

    async def _inbox(self) -> int:
        info = self._follower.info
        begin, end = keys.inbox_range(info.universe, info.id)
        page = await self._follower.loader.engine.scan(begin, end, limit=INBOX_COUNT_MAX)
        return len(page.items)


async def list_world(follower: Follower, progress: Progress | None = None) -> Listing:
    """Look at a whole world; the copy stays where it is until the listing is dropped."""
    return Listing(follower, await follower.world(progress))
