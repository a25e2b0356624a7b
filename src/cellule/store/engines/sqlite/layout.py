"""The tables of the file: made in an empty one, checked in ours, and no other file is touched.

A file is changed only after it proved to be empty or ours, and the texts of its tables are compared with
these, since a damaged description of a table would make SQLite read rows wrongly. `docs/formats/sqlite.md`
describes what is stored.

Rejected: a table without rowids. It keeps values inside the tree of keys and moves them when it splits.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from cellule.errors import Corrupted, Rejected
from cellule.store.engines.sqlite.connection import Connection, Settings, first, patiently, roll_back

APPLICATION_ID = 0x43454C4C
LAYOUT_VERSION = 1
SQLITE_VERSION_MIN = (3, 37, 0)
PAGE_SIZE = 4_096

TABLES = (
    "CREATE TABLE rows (key BLOB NOT NULL, value BLOB NOT NULL) STRICT",
    "CREATE UNIQUE INDEX rows_key ON rows (key)",
    "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
)


def prepare_file(connection: Connection, settings: Settings) -> None:
    """Check that the file is ours or empty, then put it into WAL mode and give a new one its tables."""

    def steps() -> None:
        check_version(connection)
        if is_new(connection, settings.path):
            for setting in (f"page_size={PAGE_SIZE}", "auto_vacuum=NONE"):
                connection.execute(f"PRAGMA {setting}").fetchall()
            enter_wal(connection, settings.path)
            create_tables(connection, settings.path)
        else:
            enter_wal(connection, settings.path)

    patiently(steps, settings)


def check_version(connection: Connection) -> None:
    """Refuse an SQLite too old for the tables and statements used here."""
    text = first(connection, "SELECT sqlite_version()")
    if tuple(int(part) for part in text.split(".")) < SQLITE_VERSION_MIN:
        raise Rejected(
            "store.sqlite_old", "SQLite {found} is too old; {needed} or newer is needed",
            found=text, needed=".".join(map(str, SQLITE_VERSION_MIN)), hint="Upgrade SQLite or Python.",
        )  # fmt: skip


def is_new(connection: Connection, path: str) -> bool:
    """Tell an empty file from one of ours; refuse a file of another program or of a newer layout."""
    if first(connection, "SELECT count(*) FROM sqlite_schema") == 0:
        return True
    found = first(connection, "PRAGMA application_id")
    if found != APPLICATION_ID:
        raise Rejected(
            "store.not_a_store", "{path} is an SQLite database of another program (application id {found})",
            path=path, found=found, hint="Name another file.",
        )  # fmt: skip
    version = first(connection, "PRAGMA user_version")
    if version != LAYOUT_VERSION:
        raise Rejected(
            "store.layout_unknown", "{path} has table layout {version}; this release reads layout {known}",
            path=path, version=version, known=LAYOUT_VERSION,
            hint="Open it with the release that wrote it, or newer.",
        )  # fmt: skip
    check_tables(connection, path)
    return False


def has_tables(path: Path) -> bool:
    """Tell whether there is something in a file, without writing to it; what cannot be read is something."""
    try:
        if not path.stat().st_size:
            return False
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except (OSError, sqlite3.Error):
        return path.exists()
    try:
        return bool(first(connection, "SELECT count(*) FROM sqlite_schema"))
    except sqlite3.Error:
        return True
    finally:
        connection.close()


def check_tables(connection: Connection, path: str) -> None:
    """Refuse a file whose tables are not exactly ours: the description of a table can be damaged too."""
    rows = connection.execute("SELECT CAST(sql AS BLOB) FROM sqlite_schema").fetchall()
    found = sorted(str(sql or b"", "utf-8", "replace") for (sql,) in rows)
    if found != sorted(TABLES):
        raise Corrupted(
            "store.tables_damaged", "the tables of {path} are not those of a store: {found}",
            path=path, found=found,
            hint="Something else changed the file, or it is damaged: restore from a backup.",
        )  # fmt: skip


def enter_wal(connection: Connection, path: str) -> None:
    """Switch the file to write-ahead logging, which it then keeps."""
    mode = first(connection, "PRAGMA journal_mode=WAL")
    if mode != "wal":
        raise Rejected(
            "store.no_wal", "{path} cannot use write-ahead logging (it stays in mode {mode})",
            path=path, mode=mode, hint="Use a local disk: network folders and memory files cannot.",
        )  # fmt: skip


def create_tables(connection: Connection, path: str) -> None:
    """Make the tables in one transaction, unless another process was faster."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if is_new(connection, path):
            for sql in TABLES:
                connection.execute(sql).fetchall()
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}").fetchall()
            connection.execute(f"PRAGMA user_version={LAYOUT_VERSION}").fetchall()
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
