"""Reads that go around damaged rows: one row that fails its checksum fails its own reader, and nobody else.

What fails below rows (a damaged page, the disk) fails the read as ever. What a damaged row means is decided
by whoever reads.
"""

from __future__ import annotations

from collections.abc import Sequence

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
            key = damaged_key(error)
            if key is None or not begin <= key < end:
                raise
            before = await engine.scan(begin, key, limit=room) if begin < key else Page([], False)
            items += before.items
            if before.more:
                return Page(items, True), damaged
            damaged[key] = error
            begin = key + b"\0"
        else:
            return Page([*items, *page.items], page.more), damaged


async def sound_read(
    engine: Engine, keys: Sequence[bytes]
) -> tuple[list[bytes | None], dict[bytes, Corrupted]]:
    """Values as `read` gives them, None for those that fail their checksum; and these, by key.

    The values are of one snapshot: what is damaged is left out of another read.
    """
    damaged: dict[bytes, Corrupted] = {}
    while True:
        asked = [key for key in keys if key not in damaged]
        try:
            held = dict(zip(asked, await engine.read(asked), strict=True))
        except Corrupted as error:
            key = damaged_key(error)
            if key is None or key not in asked:
                raise
            damaged[key] = error
        else:
            return [held.get(key) for key in keys], damaged


def damaged_key(error: Corrupted) -> bytes | None:
    """The key of the row that failed its checksum; None where it was something else."""
    key = error.fields.get("key")
    return key if error.code == "store.row_damaged" and isinstance(key, bytes) else None
