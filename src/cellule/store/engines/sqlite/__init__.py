"""The SQLite engine: the embedded default, one file, durable before it answers.

`SqliteEngine` is the engine, `check` proves a file, `connect_sqlite3` is the default way to reach SQLite.
`docs/formats/sqlite.md` describes the tables, the settings, and what is assumed of the disk.
"""

from cellule.store.engines.sqlite.check import CheckReport, Problem, check
from cellule.store.engines.sqlite.connection import Connect, Connection, connect_sqlite3
from cellule.store.engines.sqlite.engine import SqliteEngine

__all__ = ["CheckReport", "Connect", "Connection", "Problem", "SqliteEngine", "check", "connect_sqlite3"]
