"""Making and checking the schema when an engine opens.

A schema that is there is only read, so a role without the right to create works. A missing one is made in one
transaction under an advisory lock, so that any number of nodes may start at once. Each version of the layout
has a commit function of its own name: nodes of two versions can run side by side during an upgrade.
"""

from __future__ import annotations

import re
from zlib import crc32

from cellule.errors import Rejected
from cellule.store.engines.postgres.connection import Connection
from cellule.store.engines.postgres.layout import LAYOUT_VERSION, install_script

SERVER_VERSION_MIN = 14
LOCK_CLASS = 0x63656C6C


def check_schema_name(schema: str) -> None:
    """Refuse a schema name that would need quoting, or that is too long for the channel made of it."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema) or schema.startswith("pg_"):
        raise Rejected(
            "store.postgres_schema", "{schema} is no usable schema name", schema=repr(schema),
            hint="Take 1 to 48 lower-case letters, digits and _, not starting with a digit or pg_.",
        )  # fmt: skip


async def ensure_installed(connection: Connection, schema: str, *, create: bool = True) -> None:
    """Check the layout of `schema`, making it first if there is none and `create` allows it."""
    _check_server(connection)
    version = await _installed_version(connection, schema)
    if version is None and not create:
        raise Rejected(
            "store.no_data", "there is no Cellule data in schema {address} of this PostgreSQL database",
            address=schema, hint="Correct the address, or make a world there first.",
        )  # fmt: skip
    if version is None:
        version = await _install(connection, schema)
    if version != LAYOUT_VERSION:
        raise Rejected(
            "store.postgres_newer", "schema {schema} has layout {version}; this Cellule knows {known}",
            schema=schema, version=version, known=LAYOUT_VERSION,
            hint="Upgrade Cellule to the version that made it, or open another schema.",
        )  # fmt: skip


def _check_server(connection: Connection) -> None:
    found = connection.get_server_version().major
    if found < SERVER_VERSION_MIN:
        raise Rejected(
            "store.postgres_version", "PostgreSQL {found} is too old; Cellule needs {least} or newer",
            found=found, least=SERVER_VERSION_MIN, hint="Upgrade the server.",
        )  # fmt: skip


async def _installed_version(connection: Connection, schema: str) -> int | None:
    """The newest layout in `schema`, or `None` where there is none."""
    if await connection.fetchval("SELECT to_regclass($1)::text", f"{schema}.installed") is None:
        return None
    version: int | None = await connection.fetchval(f"SELECT max(version) FROM {schema}.installed")  # noqa: S608
    return version


async def _install(connection: Connection, schema: str) -> int:
    async with connection.transaction():
        await connection.execute(
            "SELECT pg_advisory_xact_lock($1, $2)", LOCK_CLASS, _signed(crc32(schema.encode()))
        )
        version = await _installed_version(connection, schema)
        if version is not None:
            return version
        if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
            await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.execute(install_script(schema))
    return LAYOUT_VERSION


def _signed(number: int) -> int:
    """A 32-bit number as PostgreSQL's `integer` has it."""
    return number - (1 << 32) if number >= 1 << 31 else number
