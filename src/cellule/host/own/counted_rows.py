"""Lists that are counted: as many rows as the counter beside them says, or damage hides some.

The counter is added to in the batch that changes the list. A damaged row is counted and told by its key.
A row of its own that there need not be is counted alike: what was counted and is not there is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from cellule.errors import Conflict, Corrupted, Rejected, Unavailable
from cellule.host.limits import ATTEMPTS_MAX
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine, Row, counter_value
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


async def sound_rows(engine: Engine, bounds: tuple[bytes, bytes], counter: bytes, what: str) -> list[Row]:
    """All rows of a list, none of them damaged."""
    rows, damaged = await counted_rows(engine, bounds, counter, what)
    await engine.read(damaged[:1])  # raises: there is no going on without it
    return rows


def check_counted(stored: bytes | None, count: bytes | None, what: str) -> bytes | None:
    """Return a row that there need not be; `Corrupted` where it was counted, and is not there."""
    if stored is None and counter_value(count) > 0:
        raise Corrupted("host.row_missing", "{what} is missing", what=what, hint=HIDDEN)
    return stored


async def set_counted(
    engine: Engine, key: bytes, value: bytes, counter: bytes, beside: Mapping[bytes, bytes | None]
) -> None:
    """Set a row, and count it where there was none; rows `beside` it must be as they were read."""
    for _ in range(ATTEMPTS_MAX):
        [stored] = await engine.read([key])
        added = {counter: 1} if stored is None else {}
        with suppress(Conflict):
            await engine.commit(Batch(expect={**beside, key: stored}, set={key: value}, add=added))
            return
    raise _contended()


async def clear_counted(engine: Engine, key: bytes, counter: bytes) -> bool:
    """Clear a row of a list and count it no more; False where there is none."""
    for _ in range(ATTEMPTS_MAX):
        [stored] = await engine.read([key])
        if stored is None:
            return False
        with suppress(Conflict):
            await engine.commit(Batch(expect={key: stored}, clear=[key], add={counter: -1}))
            return True
    raise _contended()


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Read a row; `Corrupted` where it is not what was written."""
    try:
        yield
    except (Rejected, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Corrupted(
            "host.row_unreadable",
            "{what} cannot be read: {why}",
            what=what,
            why=error,
            hint="Run `cellule check`.",
        ) from error


def _contended() -> Unavailable:
    return Unavailable(
        "host.row_contended", "others change the same row again and again", hint="Do it again in a moment."
    )


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
