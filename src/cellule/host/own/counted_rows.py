"""Lists that are counted: as many rows as the counter beside them says, or damage hides some.

The counter is added to in the batch that changes the list. A damaged row is counted and told by its key.
"""

from __future__ import annotations

from cellule.errors import Corrupted
from cellule.host.limits import ATTEMPTS_MAX
from cellule.store.engine import SCAN_LIMIT_MAX, Engine, Row, counter_value
from cellule.store.sound_scan import sound_scan

HIDDEN = "Damage hides rows. Keep a copy of the store, run `cellule check`, and restore a backup."


async def counted_rows(
    engine: Engine, bounds: tuple[bytes, bytes], counter: bytes, what: str
) -> tuple[list[Row], list[bytes]]:
    """All rows of a list, and the keys of damaged ones; they are as many as were counted.

    The list is read in pages, so one that changes meanwhile is read again.
    """
    differing = 0
    while True:
        before = await _count(engine, counter)
        rows, damaged = await _all(engine, *bounds)
        found = len(rows) + len(damaged)
        if found == before:
            return rows, damaged
        differing += await _count(engine, counter) == before
        if differing == ATTEMPTS_MAX:
            raise Corrupted(
                "host.list_short", "{found} {what} are listed, and {count} were counted",
                found=found, what=what, count=before, hint=HIDDEN,
            )  # fmt: skip


async def _count(engine: Engine, counter: bytes) -> int:
    [stored] = await engine.read([counter])
    return counter_value(stored)


async def _all(engine: Engine, begin: bytes, end: bytes) -> tuple[list[Row], list[bytes]]:
    rows: list[Row] = []
    damaged: list[bytes] = []
    while True:
        page, errors = await sound_scan(engine, begin, end, limit=SCAN_LIMIT_MAX)
        rows += page.items
        damaged += errors
        if not page.more:
            return rows, damaged
        begin = max([key for key, _ in page.items[-1:]] + list(errors)[-1:]) + b"\0"
