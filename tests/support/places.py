"""Places: addresses of stores for tests that run on each kind of them, through the public API.

A place has nothing in it when a test gets it. `words` carries one to another process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

import cellule
from cellule import App, Options
from cellule.host.own.directory import WorldInfo
from cellule.host.service import Cellule, Deploy
from cellule.modules.kinds import CodeKinds
from cellule.store.address import StoreAddress, parse_address
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import Store, StoreOptions, open_store
from tests.support.nodes import check_store
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.s3 import S3Server

FOLDER, FOLDER_AND_OBJECTS = "folder", "folder and objects"
POSTGRES, POSTGRES_AND_S3 = "postgres", "postgres and s3"
KINDS = (FOLDER, FOLDER_AND_OBJECTS, POSTGRES, POSTGRES_AND_S3)
SHARED_KINDS = (POSTGRES, POSTGRES_AND_S3)

SESSION_TTL_S = 10.0  # longer than a busy machine stands still
BRIEF_TTL_S = 2.0  # of nodes that are killed: whoever comes after them waits for it

_numbers = count()


@dataclass(frozen=True)
class Place:
    """Where a test's store is."""

    kind: str
    address: str
    objects: str | None = None
    credentials: Mapping[str, str] | None = field(default=None, repr=False)

    def open(
        self, app: App | None = None, *, deploy: Deploy = "auto", **options: Any
    ) -> AbstractAsyncContextManager[Cellule]:
        """A node there, as a user opens it."""
        chosen = Options(**{"store": self.options, "session_ttl_s": SESSION_TTL_S, **options})
        return cellule.open(self.address, app, objects=self.objects, deploy=deploy, options=chosen)

    def store(self) -> AbstractAsyncContextManager[Store]:
        """The store itself, which must be there."""
        return open_store(self.parsed, self.options, create=False)

    @property
    def options(self) -> StoreOptions:
        """What completes the address."""
        return StoreOptions(credentials=self.credentials)

    @property
    def parsed(self) -> StoreAddress:
        """The address, read."""
        return parse_address(self.address, self.objects, credentials=self.credentials)

    async def prove(self) -> list[WorldInfo]:
        """Check and verify every world, and restore it from each of its snapshots to the same bytes."""
        programs = CodeKinds(limit_s=None)
        try:
            async with self.store() as store:
                if isinstance(store.engine, SqliteEngine):
                    report = await store.engine.check()
                    assert report.ok, report.problems
                async for _ in store.engine.rows():
                    pass  # every checksum is held against its row
                return await check_store(store.engine, programs, store.objects)
        finally:
            programs.close()

    def words(self) -> str:
        """The place as one argument of a command."""
        return json.dumps(asdict(self))

    @classmethod
    def of_words(cls, words: str) -> Self:
        """Read what `words` wrote."""
        return cls(**json.loads(words))


def folder_place(folder: Path, *, objects: bool = False) -> Place:
    """A data folder, which is not there yet."""
    folder.mkdir(exist_ok=True)
    if not objects:
        return Place(FOLDER, str(folder / "data"))
    return Place(FOLDER_AND_OBJECTS, str(folder / "data"), str(folder / "objects"))


def postgres_place(postgres: PostgresServer, s3: S3Server | None = None) -> Place:
    """A schema of its own, and a prefix of its own in the bucket."""
    number = next(_numbers)
    dsn = f"{postgres.dsn}?schema=place_{number}"
    if s3 is None:
        return Place(POSTGRES, dsn)
    return Place(POSTGRES_AND_S3, dsn, s3.url(f"place{number}"), s3.credentials)
