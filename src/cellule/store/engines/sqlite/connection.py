"""Connections: what is needed of a driver, how a file is opened, and which settings each connection has.

Every setting that durability rests on is set on every connection. What is in the file is `layout.py`'s
business, statements on its rows are `statements.py`'s.

Rejected: `synchronous=NORMAL`. In WAL mode it acknowledges commits that a power loss takes back.
Rejected: automatic checkpoints. They run inside COMMIT without the write lock; see `writer.py`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from os.path import realpath
from typing import Any, Protocol, TypeVar

from cellule.store.engines.sqlite.errors import is_busy, mapped, result_code

BUSY_STEP_MS = 50
CACHE_KIB = 32_768

T = TypeVar("T")


class Cursor(Protocol):
    """The rows of one statement."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def close(self) -> None:
        """End the statement, whether or not all rows were taken."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What the engine needs of a driver; `sqlite3` and `apsw` connections both have it.

    It never opens a transaction by itself, may be used by one thread after another, and its errors carry the
    extended result code as `sqlite_errorcode` or `extendedresult`.
    """

    def execute(self, sql: str, parameters: Sequence[bytes | int | str] = ..., /) -> Cursor:
        """Run one statement, at least to its first row."""

    def close(self) -> None:
        """Close the connection."""


Connect = Callable[[str], Connection]


@dataclass(frozen=True, slots=True)
class Settings:
    """How one file is used; everything here is a choice of this process, nothing is stored."""

    path: str
    connect: Connect
    busy_ms: int
    checkpoint_bytes: int
    poll_ms: int


def absolute_path(path: str | PathLike[str]) -> str:
    """Return the path as SQLite gets it: absolute, so that it is never read as an address or as memory.

    Links are followed, as SQLite does: its log lies beside the file, not beside the link.
    """
    return realpath(fspath(path))


def connect_sqlite3(path: str) -> Connection:
    """Open `path` with the standard library's driver."""
    return sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        timeout=BUSY_STEP_MS / 1000,
    )


def open_connection(settings: Settings, *, read_only: bool = False) -> Connection:
    """Open and configure one connection to a file; what is in it does not matter yet."""

    def step() -> Connection:
        connection = settings.connect(settings.path)
        try:
            configure(connection, settings, read_only=read_only)
        except BaseException:
            connection.close()
            raise
        return connection

    return patiently(step, settings)


def configure(connection: Connection, settings: Settings, *, read_only: bool) -> None:
    """Set what holds for one connection and is forgotten when it closes."""
    for setting in (
        f"busy_timeout={BUSY_STEP_MS}",
        "synchronous=FULL",
        "fullfsync=ON",
        "checkpoint_fullfsync=ON",
        "wal_autocheckpoint=0",
        f"journal_size_limit={settings.checkpoint_bytes}",
        "temp_store=MEMORY",
        f"cache_size=-{CACHE_KIB}",
        "secure_delete=FAST",
        "cell_size_check=ON",
        "mmap_size=0",
        "trusted_schema=OFF",
        f"query_only={'ON' if read_only else 'OFF'}",
    ):
        connection.execute(f"PRAGMA {setting}").fetchall()


def patiently(step: Callable[[], T], settings: Settings) -> T:
    """Run `step` again while the file is busy, for `busy_ms` at most; raise a mapped error.

    `step` must have changed nothing when it finds the file busy.
    """
    deadline = time.monotonic() + settings.busy_ms / 1000
    while True:
        try:
            return step()
        except Exception as error:
            if result_code(error) is None:
                raise
            if not is_busy(error) or time.monotonic() >= deadline:
                raise mapped(error, settings.path) from error
        # SQLite itself waits for locks; the codes it returns at once are given a moment here.
        time.sleep(0.001)


def first(connection: Connection, sql: str) -> Any:
    """Return the first column of the first row."""
    return connection.execute(sql).fetchall()[0][0]


def roll_back(connection: Connection) -> bool:
    """End the transaction without effect; `False` if the connection is no longer fit for use.

    SQLite rolls back by itself on some errors, and then finds no transaction here: that is fine as well, but
    the connection has seen an error of the disk and is better replaced.
    """
    try:
        connection.execute("ROLLBACK")
    except Exception as error:
        if result_code(error) is None:
            raise
        return False
    return True


def close_quietly(connection: Connection) -> None:
    """Close a connection whose state no longer matters; all that counts was committed before."""
    try:
        connection.close()
    except Exception as error:
        if result_code(error) is None:
            raise
