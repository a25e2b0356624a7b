"""An open store: rows in an engine, large bodies in an object store if it has one. Opened by its address.

The one place that knows which engine and which object store an address means; a driver is imported when its
address is met. Whatever cannot work is told before anything is made: the format is checked by the engine,
the objects by `binding.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from cellule.errors import Rejected, Unavailable
from cellule.sources import Entropy, SystemEntropy
from cellule.store import keys
from cellule.store.address import (
    BucketAddress,
    FolderAddress,
    MemoryAddress,
    PostgresAddress,
    StoreAddress,
)
from cellule.store.binding import bind_objects
from cellule.store.cache import DISK_CACHE_BYTES, DiskCache
from cellule.store.engine import Engine
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.store.engines.sqlite import SqliteEngine, connect_sqlite3
from cellule.store.engines.sqlite.connection import Connect
from cellule.store.engines.sqlite.layout import has_tables
from cellule.store.format import check_format
from cellule.store.object_store import ObjectStore
from cellule.store.objects.local import LocalObjects
from cellule.store.objects.options import RemoteOptions

DATABASE = "cellule.db"
OBJECTS_OPEN_S = 20.0
"""How long the first requests to an object store may take altogether."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store is reached; nothing here is stored."""

    connect: Connect = connect_sqlite3
    pool_max: int = 16  # connections to PostgreSQL
    timeout_ms: int = 15_000  # of one statement
    connect_timeout_ms: int = 10_000
    remote: RemoteOptions = RemoteOptions()  # noqa: RUF009 - frozen
    credentials: Mapping[str, str] | None = field(default=None, repr=False)
    """Of the bucket, by the driver's names (`access_key_id`, `secret_access_key`); None: the environment."""
    cache: Path | None = None  # where bodies of a remote object store are kept at hand; None: nowhere
    cache_bytes: int = DISK_CACHE_BYTES


@dataclass(frozen=True, slots=True)
class Store:
    """What an address led to."""

    address: StoreAddress
    engine: Engine
    objects: ObjectStore | None = None
    disk: DiskCache | None = None


@asynccontextmanager
async def open_store(
    address: StoreAddress,
    options: StoreOptions | None = None,
    *,
    create: bool = True,
    entropy: Entropy | None = None,
) -> AsyncIterator[Store]:
    """Open what an address names, and close it with the block. Without `create` nothing is made.

    The folder of a folder's address must exist.
    """
    options, entropy = options or StoreOptions(), entropy or SystemEntropy()
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(await open_engine(address, options, create=create))
        objects = await _objects(address.objects, options, create=create)
        disk = None
        if objects is not None:
            await stack.enter_async_context(objects)
            if objects.remote and options.cache is not None:
                disk = await DiskCache.open(options.cache, bytes_max=options.cache_bytes, entropy=entropy)
        await _check_whole(engine)
        await _bound(engine, objects, address, entropy, create=create)
        yield Store(address, engine, objects, disk)


async def open_engine(address: StoreAddress, options: StoreOptions, *, create: bool) -> Engine:
    """Open the rows of an address alone; whoever opens an engine closes it."""
    match address.rows:
        case FolderAddress(path=folder):
            if not create:
                check_data(address)
            return await SqliteEngine.open(folder / DATABASE, connect=options.connect)
        case PostgresAddress(dsn=dsn, schema=schema):
            return await _postgres(dsn, schema, options, create=create)
        case MemoryAddress():
            engine = MemoryEngine(MemoryDisk())
            await check_format(engine)
            return engine
        case _:
            assert_never(address.rows)


async def _postgres(dsn: str, schema: str, options: StoreOptions, *, create: bool) -> Engine:
    try:
        from cellule.store.engines.postgres import PostgresEngine
    except ImportError as error:
        raise _extra("asyncpg", "postgres") from error
    return await PostgresEngine.open(
        dsn, schema=schema, pool_max=options.pool_max, timeout_ms=options.timeout_ms,
        connect_timeout_ms=options.connect_timeout_ms, create=create,
    )  # fmt: skip


async def _objects(
    address: FolderAddress | BucketAddress | None, options: StoreOptions, *, create: bool
) -> ObjectStore | None:
    match address:
        case None:
            return None
        case FolderAddress(path=folder):
            return await LocalObjects.open(folder, create=create)
        case BucketAddress():
            try:
                from cellule.store.objects.remote import RemoteObjects
            except ImportError as error:
                raise _extra("obstore", "objects") from error
            return RemoteObjects.open(address, options=options.remote)
        case _:
            assert_never(address)


async def _check_whole(engine: Engine) -> None:
    """Refuse a store whose making from a copy did not end."""
    [underway] = await engine.read([keys.copy_underway()])
    if underway is not None:
        raise Rejected(
            "store.half_copied", "this store is being restored, or a restore into it did not end",
            hint="Wait for the restore, or remove the store and restore again.",
        )  # fmt: skip


async def _bound(
    engine: Engine, objects: ObjectStore | None, address: StoreAddress, entropy: Entropy, *, create: bool
) -> None:
    where = "" if address.objects is None else address.objects.text
    try:
        async with asyncio.timeout(OBJECTS_OPEN_S):
            await bind_objects(engine, objects, where, entropy, create=create)
    except TimeoutError:
        raise Unavailable(
            "store.objects_timeout", "the object store {where} did not answer within {seconds:g} s",
            where=where, seconds=OBJECTS_OPEN_S, hint="Check its address, endpoint and network, then retry.",
        ) from None  # fmt: skip


def check_data(address: StoreAddress) -> None:
    """Refuse a folder without data; an empty file or database is none, and opening it would make tables."""
    folder = address.folder
    if folder is not None and not _has_tables(folder / DATABASE):
        raise Rejected(
            "store.no_data", "there is no Cellule data in {address}", address=str(address),
            hint="Name it with --data, or make a world: cellule world create NAME --app FILE.py:app",
        )  # fmt: skip


def _has_tables(file: Path) -> bool:
    try:
        return has_tables(file)
    except OSError as error:
        raise Unavailable(
            "store.cannot_open", "{path} cannot be opened: {why}", path=str(file), why=error.strerror,
            hint="Check the path, and run this as a user who may read and write there.",
        ) from error  # fmt: skip


def _extra(driver: str, extra: str) -> Rejected:
    return Rejected(
        "store.driver_missing", "this address needs the package {driver}, which is not installed",
        driver=driver, hint=f'Run: pip install "cellule[{extra}]"',
    )  # fmt: skip
