"""`check`: prove a whole file, its pages and its rows.

SQLite's own check walks every page and compares the table with its index, so it finds rows that a damaged
page hides; then every row is read in storage order and held against its checksum, which finds damaged values
and values under a wrong key. The file may be in use: nothing is locked, and each step reads its own snapshot.
What no check can see: a log cut at its end (it looks like a crash before that commit) and a changed counter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from cellule.errors import CelluleError, Corrupted, Unavailable
from cellule.store.engines.sqlite.connection import (
    Connect,
    Connection,
    Settings,
    absolute_path,
    close_quietly,
    connect_sqlite3,
    open_connection,
    patiently,
)
from cellule.store.engines.sqlite.layout import is_new
from cellule.store.engines.sqlite.statements import read_stamp
from cellule.store.rows import open_row

PAGE_ROWS = 1_000
PROBLEMS_MAX = 1_000
BUSY_MS = 5_000

Progress = Callable[[int], None]
"""Called on the event loop with the number of rows proven so far."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `kind` is page, row or stamp; `key` is known for rows only."""

    kind: str
    text: str
    key: bytes | None = None


@dataclass(slots=True)
class CheckReport:
    """What was proven and what was found; at most `PROBLEMS_MAX` problems are kept, all are counted."""

    path: str
    rows: int = 0
    bytes: int = 0
    problem_count: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Tell whether nothing is wrong."""
        return self.problem_count == 0

    def add(self, problem: Problem) -> None:
        """Count a problem, and keep it if there is room."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)


async def check(
    path: str | PathLike[str], *, connect: Connect = connect_sqlite3, progress: Progress | None = None
) -> CheckReport:
    """Prove the file at `path`; damage goes into the report, `Unavailable` and `Rejected` are raised."""
    settings = Settings(absolute_path(path), connect, BUSY_MS, checkpoint_bytes=0, poll_ms=0)
    report = CheckReport(settings.path)
    connection = await asyncio.to_thread(_opened, settings, report)
    if connection is None:
        return report
    try:
        await asyncio.to_thread(_check_pages, connection, settings, report)
        await asyncio.to_thread(_check_stamp, connection, settings, report)
        await _check_rows(connection, settings, report, progress)
    finally:
        close_quietly(connection)
    return report


async def _check_rows(
    connection: Connection, settings: Settings, report: CheckReport, progress: Progress | None
) -> None:
    after: int | None = -(1 << 63)
    while after is not None:
        after = await asyncio.to_thread(_check_some_rows, connection, settings, report, after)
        if progress is not None:
            progress(report.rows)


def _opened(settings: Settings, report: CheckReport) -> Connection | None:
    """Open the file; `None` if it is too damaged for that, which is then in the report."""
    if not Path(settings.path).is_file():
        raise Unavailable(
            "store.cannot_open", "{path} cannot be opened: there is no such file",
            path=settings.path, hint="Check the path.",
        )  # fmt: skip
    try:
        connection = open_connection(settings, read_only=True)
    except Corrupted as error:
        report.add(Problem("page", str(error)))
        return None
    try:
        patiently(lambda: is_new(connection, settings.path), settings)
    except Corrupted as error:
        report.add(Problem("page", str(error)))
        close_quietly(connection)
        return None
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def _check_pages(connection: Connection, settings: Settings, report: CheckReport) -> None:
    def step() -> list[tuple[str]]:
        return connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()

    try:
        lines = [line for (line,) in patiently(step, settings)]
    except Corrupted as error:
        lines = [str(error)]
    for line in lines:
        if line != "ok":
            report.add(Problem("page", line))


def _check_stamp(connection: Connection, settings: Settings, report: CheckReport) -> None:
    try:
        patiently(lambda: read_stamp(connection), settings)
    except Corrupted as error:
        report.add(Problem("stamp", str(error)))


def _check_some_rows(
    connection: Connection, settings: Settings, report: CheckReport, after: int
) -> int | None:
    """Prove the rows behind rowid `after`; return where to go on, `None` at the end."""

    def step() -> list[tuple[int, bytes, bytes]]:
        sql = "SELECT rowid, key, value FROM rows WHERE rowid > ? ORDER BY rowid LIMIT ?"
        return connection.execute(sql, (after, PAGE_ROWS)).fetchall()

    try:
        rows = patiently(step, settings)
    except Corrupted as error:
        report.add(Problem("page", f"rows behind rowid {after} cannot be read: {error}"))
        return None
    for rowid, key, stored in rows:
        if rowid <= after:
            report.add(Problem("page", f"row {rowid} follows row {after}: the table runs in a circle"))
            return None
        after = rowid
        report.rows += 1
        report.bytes += len(key) + len(stored)
        try:
            open_row(key, stored)
        except CelluleError as error:
            report.add(Problem("row", str(error), key))
    return after if len(rows) == PAGE_ROWS else None
