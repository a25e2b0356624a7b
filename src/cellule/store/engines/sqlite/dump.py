"""Every row of a file, from one snapshot: one statement on a connection of its own, read page by page.

An open statement keeps its snapshot. Each page is read in some thread, one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator

from cellule.store.engine import PAGE_BYTES_MAX, Row
from cellule.store.engines.sqlite.connection import (
    Connection,
    Settings,
    close_quietly,
    open_connection,
    patiently,
)
from cellule.store.engines.sqlite.errors import mapped, result_code
from cellule.store.rows import open_rows

_EVERY_ROW = "SELECT key, value FROM rows ORDER BY key"


async def every_row(settings: Settings) -> AsyncGenerator[list[Row], None]:
    """Yield all rows; `Corrupted` at the first damaged one."""
    connection, found = await asyncio.to_thread(_begun, settings)
    try:
        while page := await asyncio.to_thread(_page, found, settings.path):
            yield page
    finally:
        await asyncio.to_thread(close_quietly, connection)


def _begun(settings: Settings) -> tuple[Connection, Iterator[Row]]:
    connection = open_connection(settings, read_only=True)
    try:
        return connection, iter(patiently(lambda: connection.execute(_EVERY_ROW), settings))
    except BaseException:
        close_quietly(connection)
        raise


def _page(found: Iterator[Row], path: str) -> list[Row]:
    """The next rows, about as many bytes as a page may have."""
    rows: list[Row] = []
    size = 0
    try:
        for key, stored in found:
            rows.append((key, stored))
            size += len(key) + len(stored)
            if size >= PAGE_BYTES_MAX:
                break
    except Exception as error:
        if result_code(error) is None:
            raise
        raise mapped(error, path) from error
    return open_rows(rows)
