"""Scans that go around damaged rows: one row that fails its checksum fails its own reader, and nobody else.

What fails below rows (a damaged page, the disk) fails the scan as ever. What a damaged row means is decided
by whoever scans.
"""

from __future__ import annotations

from cellule.errors import Corrupted
from cellule.store.engine import Engine, Page, Row


async def sound_scan(
    engine: Engine, begin: bytes, end: bytes, *, limit: int
) -> tuple[Page, dict[bytes, Corrupted]]:
    """A page as `scan` gives it, without rows that fail their checksum; and those, by key.

    Each page is of one snapshot only where nothing is damaged. Damaged rows count towards `limit`, and the
    next page begins behind the last key of either.
    """
    items: list[Row] = []
    damaged: dict[bytes, Corrupted] = {}
    while True:
        room = limit - len(items) - len(damaged)
        if room <= 0:
            return Page(items, True), damaged
        try:
            page = await engine.scan(begin, end, limit=room)
        except Corrupted as error:
            key = error.fields.get("key")
            if error.code != "store.row_damaged" or not isinstance(key, bytes) or not begin <= key < end:
                raise
            before = await engine.scan(begin, key, limit=room) if begin < key else Page([], False)
            items += before.items
            if before.more:
                return Page(items, True), damaged
            damaged[key] = error
            begin = key + b"\0"
        else:
            return Page([*items, *page.items], page.more), damaged
