"""Reading rows on one connection: one statement is one snapshot, also over several families.

The statements are made once per engine, so that the driver prepares each of them once per connection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from cellule.store.engine import KEY_BYTES_MAX, PAGE_BYTES_MAX, SCAN_LIMIT_MAX, VALUE_BYTES_MAX, Page, Row
from cellule.store.engines.postgres.connection import Connection
from cellule.store.engines.postgres.layout import TABLES
from cellule.store.families import Family, family
from cellule.store.rows import CHECKSUM_BYTES, open_row

SMALL_PAGE_ROWS = PAGE_BYTES_MAX // (KEY_BYTES_MAX + VALUE_BYTES_MAX) - 1
"""So few rows fit a page whatever their size, the one row more that is asked for included."""

_BEHIND_ALL = b"\xff"  # keys begin with 01 or 02

_READ = "SELECT key, {value} AS value FROM {schema}.{table} WHERE key = ANY (${place}::bytea[])"
_SCAN = """
    SELECT key, {value} AS value FROM {schema}.{table}
    WHERE key >= $1 AND key < $2 ORDER BY key {direction} LIMIT $3
"""
# The rows of a scan that fit $4 bytes together; `follows` tells whether another one comes after.
_SIZED = """
    SELECT key, value, follows FROM (
        SELECT key, value, lead(true, 1, false) OVER page AS follows,
            sum(octet_length(key) + octet_length(value) - {checksum})
                OVER (page ROWS UNBOUNDED PRECEDING) AS size
        FROM ({scan}) AS found WINDOW page AS (ORDER BY key {direction})
    ) AS sized WHERE size <= $4 ORDER BY key {direction}
"""


class Reads:
    """The reading statements of one schema."""

    def __init__(self, schema: str) -> None:
        self._read_one = {kind: _read(schema, kind, 1) for kind in TABLES}
        self._read_all = " UNION ALL ".join(
            _read(schema, kind, place) for place, kind in enumerate(TABLES, 1)
        )
        self._scan = {
            (kind, reverse): _scan(schema, kind, reverse) for kind in TABLES for reverse in (False, True)
        }
        self._scan_sized = {
            (kind, reverse): _sized(scan, kind, reverse) for (kind, reverse), scan in self._scan.items()
        }

    async def read(self, connection: Connection, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of `keys`, in their order; without keys it still asks the server."""
        apart: dict[Family, list[bytes]] = {kind: [] for kind in TABLES}
        for key in keys:
            apart[family(key)].append(key)
        touched = [kind for kind, some in apart.items() if some]
        if len(touched) == 1:
            rows = await connection.fetch(self._read_one[touched[0]], keys)
        else:
            rows = await connection.fetch(self._read_all, *apart.values())
        values = {key: open_row(key, _stored(family(key), stored)) for key, stored in rows}
        return [values.get(key) for key in keys]

    async def scan(
        self, connection: Connection, kind: Family, begin: bytes, end: bytes, limit: int, reverse: bool
    ) -> Page:
        """Return one page of a range inside the family `kind`."""
        if limit <= SMALL_PAGE_ROWS:
            rows = await connection.fetch(self._scan[kind, reverse], begin, end, limit + 1)
            more = len(rows) > limit
        else:
            statement = self._scan_sized[kind, reverse]
            rows = await connection.fetch(statement, begin, end, limit + 1, PAGE_BYTES_MAX)
            more = len(rows) > limit or (bool(rows) and rows[-1]["follows"])
        items = [(row["key"], open_row(row["key"], _stored(kind, row["value"]))) for row in rows[:limit]]
        return Page(items, more)

    async def every_row(self, connection: Connection) -> AsyncGenerator[list[Row], None]:
        """Yield all rows of one snapshot, family by family."""
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            for kind in TABLES:
                page, begin = Page([], more=True), b""
                while page.more:
                    page = await self.scan(connection, kind, begin, _BEHIND_ALL, SCAN_LIMIT_MAX, False)
                    if page.items:
                        begin = page.items[-1][0] + b"\0"
                        yield page.items


def _read(schema: str, kind: Family, place: int) -> str:
    return _READ.format(schema=schema, table=TABLES[kind], value=_value(kind), place=place)


def _scan(schema: str, kind: Family, reverse: bool) -> str:
    direction = _direction(reverse)
    return _SCAN.format(schema=schema, table=TABLES[kind], value=_value(kind), direction=direction)


def _sized(scan: str, kind: Family, reverse: bool) -> str:
    checksum = 0 if kind is Family.COUNTER else CHECKSUM_BYTES
    return _SIZED.format(scan=scan, checksum=checksum, direction=_direction(reverse))


def _direction(reverse: bool) -> str:
    return "DESC" if reverse else "ASC"


def _value(kind: Family) -> str:
    """Counters travel as 8 bytes, big-endian: that is what PostgreSQL can make of them."""
    return "int8send(value)" if kind is Family.COUNTER else "value"


def _stored(kind: Family, sent: bytes) -> bytes:
    return sent[::-1] if kind is Family.COUNTER else sent
