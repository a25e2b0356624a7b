"""The SQL of the engine: few statements, each over many rows.

A statement takes a few rows, or a power of two of them, so some prepared statements serve every batch, and n
rows cost about log2(n) executions. Each execution hands the interpreter lock over and takes it back: with a
busy event loop, 1,000 rows by `executemany` took 100 ms and in chunks 7 ms.

Rejected: `executemany`, for the reason above; idle it is a third slower too.
Rejected: REPLACE. It deletes and inserts anew, which costs twice the index work of an update in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import cast

from cellule.errors import Corrupted
from cellule.store.engine import PAGE_BYTES_MAX, Page
from cellule.store.engines.sqlite.connection import Connection
from cellule.store.rows import open_row, seal_row

CHUNK_ROWS_MAX, CHUNK_ROWS_FEW = 256, 8
STAMP = b"stamp"
STAMP_COUNT_BYTES = 10


def select_rows(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the stored rows of `keys` that exist; one snapshot only inside a transaction."""
    found: dict[bytes, bytes] = {}
    for start, size in _chunks(len(keys)):
        found.update(connection.execute(_select(size), keys[start : start + size]).fetchall())
    return found


def upsert_rows(connection: Connection, rows: Mapping[bytes, bytes]) -> None:
    """Write stored rows in key order, replacing those that exist."""
    keys = sorted(rows)
    for start, size in _chunks(len(keys)):
        part = keys[start : start + size]
        flat = [b""] * (2 * size)
        flat[::2], flat[1::2] = part, [rows[key] for key in part]
        connection.execute(_upsert(size), flat)


def upsert_expected(
    connection: Connection, rows: Mapping[bytes, bytes], expect: Sequence[tuple[bytes, bytes | None]]
) -> bool:
    """Write a few stored rows by one statement if all others hold what is expected; tells whether they do.

    SQLite copies the rows once more for it, without the interpreter's lock; a statement more would take that
    from a busy loop four times.
    """
    parameters: list[bytes | None] = []
    for key in sorted(rows):
        parameters += (key, rows[key])
    for key, value in expect:
        parameters += (key, value)
    cursor = connection.execute(_upsert_expected(len(rows), len(expect)), cast("list[bytes]", parameters))
    written = getattr(cursor, "rowcount", None)
    if written is None:  # a driver that does not tell
        written = connection.execute("SELECT changes()").fetchall()[0][0]
    return bool(written)


def delete_rows(connection: Connection, keys: Sequence[bytes]) -> None:
    """Delete the rows of `keys` that exist."""
    for start, size in _chunks(len(keys)):
        connection.execute(_delete(size), keys[start : start + size])


def delete_ranges(connection: Connection, ranges: Iterable[tuple[bytes, bytes]]) -> None:
    """Delete all rows of each `[begin, end)`."""
    for begin, end in ranges:
        connection.execute("DELETE FROM rows WHERE key >= ? AND key < ?", (begin, end))


def scan_rows(connection: Connection, begin: bytes, end: bytes, limit: int, *, reverse: bool) -> Page:
    """Return the values of a range up to `limit` and the page's size, and whether more follow."""
    order = "DESC" if reverse else "ASC"
    cursor = connection.execute(
        f"SELECT key, value FROM rows WHERE key >= ? AND key < ? ORDER BY key {order} LIMIT ?",  # noqa: S608
        (begin, end, limit + 1),
    )
    try:
        return _one_page(cursor, begin, end, limit, reverse=reverse)
    finally:
        cursor.close()


def read_stamp(connection: Connection) -> int:
    """Return the number of the last batch that got stamps; 0 in a new file."""
    found = connection.execute("SELECT value FROM meta WHERE name = ?", (STAMP.decode(),)).fetchall()
    return int.from_bytes(open_row(STAMP, found[0][0]), "big") if found else 0


def write_stamp(connection: Connection, number: int) -> None:
    """Record the number of the last batch that got stamps."""
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (STAMP.decode(), seal_row(STAMP, number.to_bytes(STAMP_COUNT_BYTES, "big"))),
    )


def _one_page(
    rows: Iterable[tuple[bytes, bytes]], begin: bytes, end: bytes, limit: int, *, reverse: bool
) -> Page:
    """Take rows until the page is full; refuse rows out of order, which only a damaged index can give."""
    items: list[tuple[bytes, bytes]] = []
    size = 0
    for key, stored in rows:
        if len(items) == limit:
            return Page(items, more=True)
        if not begin <= key < end:
            raise _out_of_order(key)
        value = open_row(key, stored)
        size += len(key) + len(value)
        if items and size > PAGE_BYTES_MAX:
            return Page(items, more=True)
        items.append((key, value))
        if reverse:
            end = key
        else:
            begin = key + b"\0"
    return Page(items, more=False)


def _out_of_order(key: bytes) -> Corrupted:
    return Corrupted(
        "store.order_damaged", "key {key} was found at a place that belongs to other keys", key=key,
        hint="Stop writing to this store, run a check of the whole database, and restore from a backup.",
    )  # fmt: skip


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < count:
        left = count - start
        size = left if left <= CHUNK_ROWS_FEW else min(CHUNK_ROWS_MAX, 1 << left.bit_length() - 1)
        yield start, size
        start += size


@cache
def _select(size: int) -> str:
    return f"SELECT key, value FROM rows WHERE key IN ({_marks('?', size)})"  # noqa: S608


@cache
def _upsert(size: int) -> str:
    return (
        f"INSERT INTO rows (key, value) VALUES {_marks('(?, ?)', size)} "  # noqa: S608
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    )


@cache
def _upsert_expected(size: int, expected: int) -> str:
    held = " AND ".join(["(SELECT value FROM rows WHERE key = ?) IS ?"] * expected)
    return (
        f"INSERT INTO rows (key, value) SELECT column1, column2 FROM (VALUES {_marks('(?, ?)', size)}) "  # noqa: S608
        f"WHERE {held} ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    )


@cache
def _delete(size: int) -> str:
    return f"DELETE FROM rows WHERE key IN ({_marks('?', size)})"  # noqa: S608


def _marks(mark: str, size: int) -> str:
    return ", ".join([mark] * size)
