"""The PostgreSQL engine keeps every promise of the contract, on a real server."""

from __future__ import annotations

import asyncpg
import pytest

from cellule.store.engines.postgres import PostgresEngine
from cellule.store.engines.postgres.layout import TABLES
from cellule.store.families import family
from cellule.testing.conformance.engines import EngineConformance


class TestPostgresEngine(EngineConformance):
    @pytest.fixture
    def open_engine(self, postgres_server):
        async def open_engine():
            return await PostgresEngine.open(postgres_server.dsn, pool_max=6)

        return open_engine

    @pytest.fixture
    def damage(self, postgres_server):
        async def damage(key):
            connection = await asyncpg.connect(postgres_server.dsn)
            table = f"cellule.{TABLES[family(key)]}"
            await connection.execute(
                f"UPDATE {table} SET value = set_byte(value, 0, get_byte(value, 0) # 1) WHERE key = $1",
                key,
            )
            await connection.close()

        return damage
