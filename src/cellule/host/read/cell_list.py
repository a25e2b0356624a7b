"""What a world holds, as of its newest durable frame: cells in pages, counts, and everything that is stuck.

The copy's changes since the baseline are written into index nodes in memory only, so a page is a walk over
one root. Cells stand in the order of their keys; a cursor stays good as the world changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellule.errors import Rejected
from cellule.host.cas_fetch import drive
from cellule.host.journal import Progress
from cellule.host.read.follower import Follower
from cellule.kernel.index import scan
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Entry, unpack
from cellule.kernel.world import World
from cellule.store import keys
from cellule.values.cid import Cid

START = b""
PAGE_MAX = 1_000
INBOX_COUNT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Listed:
    """One cell of a page."""

    base: str
    key: bytes
    entry: Entry

    @property
    def status(self) -> str:
        """`waiting`, or why it does not run."""
        return str(self.entry.get("status", "waiting"))


@dataclass(frozen=True, slots=True)
class CellPage:
    """Some cells of a module; `cursor` continues behind them, None at the end."""

    cells: list[Listed]
    cursor: bytes | None


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

    @property
    def counts(self) -> dict[str, int]:
        """How many cells each module has."""
        modules = self._world.ledger.modules
        return {base: modules[base].live.root_count for base in sorted(modules) if modules[base].live.root}

    @property
    def over_budget(self) -> dict[str, tuple[int, int]]:
        """The modules with as many open effects as they may have: how many, and how many cells wait."""
        ledger = self._world.ledger
        return {
            base: (ledger.book.counts.get(base, 0), len(ledger.held.get(base, ())))
            for base in ledger.book.over
        }

    async def page(self, base: str, after: bytes = START, limit: int = 50) -> CellPage:
        """Up to `limit` cells of a module behind a cursor."""
        if not 1 <= limit <= PAGE_MAX:
            raise Rejected(
                "host.page_limit", "a page has 1 to {most} cells, not {limit}", limit=limit, most=PAGE_MAX
            )
        ledger = self._world.ledger
        root = ledger.modules[base].live.root if base in ledger.modules else None
        found = await drive(scan(root, after, None, limit, ledger.nodes), ledger.nodes, self._follower.cas)
        cells = [Listed(base, key, unpack(value)) for key, value in found]
        return CellPage(cells, cells[-1].key + b"\0" if len(cells) == limit else None)

    async def stuck(self, limit: int = 100) -> Stuck:
        """The oldest stopped cells, up to `limit`."""
        ledger, cas = self._world.ledger, self._follower.cas
        rows = await drive(ledger.stopped.scan(b"", None, limit), ledger.nodes, cas)
        stopped = [await self._stopped(base, key) for _, (base, key, _) in rows]
        return Stuck(self.paused, await self._inbox(), stopped)

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
    world = await follower.world(progress)
    world.snapshot()
    while not isinstance(answer := world.snapshot_slice(), Cid):
        if isinstance(answer, Need):
            world.ledger.nodes.add(await follower.cas.get_many(answer.cids))
    return Listing(follower, world)
