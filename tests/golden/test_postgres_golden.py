"""Frozen: the layout that `docs/formats/postgres.md` describes, and rows as PostgreSQL holds them."""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

import asyncpg

from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.postgres import PostgresEngine, install_script
from cellule.store.engines.postgres.layout import LAYOUT_VERSION, arguments
from cellule.store.engines.postgres.notify import channel_of, encode_notice
from cellule.store.engines.postgres.watch import hash_of

UNIVERSE, WORLD = UUID(int=1), UUID(int=2)
STORED = {
    "meta": (
        "02770030000000000000000000000000000000013000000000000000000000000000000002026865616400",
        "68656164a106418d",
    ),
    "journal": (
        "02770030000000000000000000000000000000013000000000000000000000000000000002026a6f75726e616c001501",
        "6672616d65da4813ed",
    ),
    "queue": (
        "0277003000000000000000000000000000000001300000000000000000000000000000000202696e626f780033000000000000000100010000",
        "6974656db42d5e3a",
    ),
    "cas": (
        "027500300000000000000000000000000000000102636173000100ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00",
        "8e6c06f9",
    ),
    "counter": ("0162656c6c00153f", -2),
}


def test_the_layout_changes_only_with_its_version():
    """Nodes of one layout version share one function: another text under the same name would replace it."""
    assert LAYOUT_VERSION == 2
    assert len(arguments()) == 45
    assert (
        sha256(install_script("cellule").encode()).hexdigest()
        == "57bdd9c97dc2b3c7491ed798557aa87d8df659d030c5c00370535600d47c3958"
    )


def test_a_notice_names_its_sender_and_the_hashes_of_the_written_keys():
    assert channel_of("cellule") == "cellule_written"
    assert encode_notice("0123abcd", [hash_of(b"123456789"), 1]) == "0123abcdy/Q5JgAAAAE="
    assert encode_notice("0123abcd", None) == "0123abcd*"


async def test_rows_are_stored_sealed_in_the_table_of_their_family(postgres_server):
    connection = await asyncpg.connect(postgres_server.dsn)
    await connection.execute("DROP SCHEMA IF EXISTS golden CASCADE")
    async with await PostgresEngine.open(postgres_server.dsn, schema="golden") as engine:
        await engine.commit(Batch(clear=[keys.format_version()]))
        await connection.execute("SELECT setval('golden.stamps', 65536)")
        [stamp] = await engine.commit(
            Batch(
                set={
                    keys.world_head(UNIVERSE, WORLD): b"head",
                    keys.journal(UNIVERSE, WORLD, 1): b"frame",
                    keys.cas(UNIVERSE, bytes(36)): b"",
                },
                add={keys.bell(63): -2},
                ordered=[(keys.inbox_prefix(UNIVERSE, WORLD), b"item")],
            )
        )
        assert stamp.hex() == "000000000000000100010000"
    rows = {table: await connection.fetch(f"SELECT key, value FROM golden.{table}") for table in STORED}
    await connection.close()
    for table, [(key, value)] in rows.items():
        assert (key.hex(), value.hex() if isinstance(value, bytes) else value) == STORED[table]
