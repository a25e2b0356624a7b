"""Where a conformance case keeps its rows: fresh ids, so that cases may share one store.

`Space` makes keys of every family and knows all ranges they can lie in; `dump` reads them all back. The
keys made by `raw` follow no layout, so they hold any bytes; engines treat them as META.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

from cellule.store import keys
from cellule.store.engine import Engine
from cellule.store.families import world_ranges
from cellule.store.tuples import pack, prefix_range

OpenEngine = Callable[[], Awaitable[Engine]]
Damage = Callable[[bytes], Awaitable[None]]


class Space:
    """Keys of one case, apart from those of every other case in the same store."""

    def __init__(self, ident: UUID | None = None) -> None:
        self.universe = ident or uuid4()
        self.world = UUID(int=self.universe.int ^ 1)
        self._raw = pack("conformance", self.universe)

    def raw(self, name: bytes = b"") -> bytes:
        """Return a key of no layout that ends with `name` as it is."""
        return self._raw + name

    def raw_range(self) -> tuple[bytes, bytes]:
        """Return the bounds of all raw keys of at most 400 bytes."""
        return self._raw, self._raw + b"\xff" * 400

    def counter(self, number: int = 0) -> bytes:
        """Return the key of a counter."""
        return pack(b"conformance", self.universe, number)

    def counter_range(self) -> tuple[bytes, bytes]:
        """Return the bounds of all counters."""
        return prefix_range(pack(b"conformance", self.universe))

    def queue(self) -> bytes:
        """Return a prefix for ordered values."""
        return keys.inbox_prefix(self.universe, self.world)

    def queue_range(self) -> tuple[bytes, bytes]:
        """Return the bounds of all ordered values."""
        return keys.inbox_range(self.universe, self.world)

    def one_of_each_family(self) -> list[bytes]:
        """Return keys of rows, at least one of each family that holds values."""
        return [
            self.raw(b"raw"),
            keys.world_head(self.universe, self.world),
            keys.journal(self.universe, self.world, 7),
            self.queue() + bytes(12),
            keys.cas(self.universe, b"\x01\x71\x00"),
            keys.cas_chunk(self.universe, bytes(16), 3),
            keys.snapshot(self.universe, self.world, 7),
        ]

    def ranges(self) -> list[tuple[bytes, bytes]]:
        """Return ranges, each inside one family, that hold every row a case can make."""
        chunks = keys.cas_chunk_range(self.universe, bytes(16))
        return [
            self.raw_range(),
            self.counter_range(),
            keys.cas_range(self.universe),
            chunks,
            *world_ranges(self.universe, self.world),
        ]


async def scan_all(engine: Engine, begin: bytes, end: bytes, limit: int = 1_000) -> dict[bytes, bytes]:
    """Read a range page by page, forward."""
    rows: dict[bytes, bytes] = {}
    while True:
        page = await engine.scan(begin, end, limit=limit)
        rows.update(page.items)
        if not page.more:
            return rows
        begin = page.items[-1][0] + b"\0"


async def dump(engine: Engine, space: Space) -> dict[bytes, bytes]:
    """Read every row of a space."""
    rows: dict[bytes, bytes] = {}
    for begin, end in space.ranges():
        rows.update(await scan_all(engine, begin, end))
    return rows
