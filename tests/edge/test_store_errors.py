"""Stores that cannot be opened: cause and cure in one sentence, nothing half made, no password told."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

import cellule
from cellule import Options
from cellule.errors import CelluleError, Corrupted, Rejected, Unavailable
from cellule.sources import SystemEntropy
from cellule.store import keys
from cellule.store.binding import bind_objects
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.store.objects.options import RemoteOptions
from cellule.store.store import StoreOptions
from cellule.values.cbor import encode
from tests.support.memory_objects import MemoryObjects
from tests.support.nodes import load_app
from tests.support.places import POSTGRES_AND_S3, folder_place, postgres_place

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
SECRET = "hush-hush-9"
HASTY = RemoteOptions(connect_timeout_ms=500, stall_timeout_ms=1_000, retries_max=1, retry_for_ms=1_000)


async def failure(address, **more):
    """What opening an address raises."""
    with pytest.raises(CelluleError) as caught:
        async with cellule.open(address, TALLY.app, **more):
            raise AssertionError("it was opened")
    error = caught.value
    assert error.hint, error
    assert "hush" not in f"{error} {error!r} {error.fields} {error.__cause__}"
    return error


async def schemas(server):
    connection = await asyncpg.connect(server.dsn)
    try:
        return await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'place_%'")
    finally:
        await connection.close()


async def test_a_postgres_that_cannot_be_used_is_told_by_its_cause(postgres_server):
    base = postgres_server.dsn.replace("postgres@", f"postgres:{SECRET}@")
    codes = {
        "postgresql://me:hush-hush-9@127.0.0.1:1/db": (Unavailable, "store.unreachable"),
        base.rpartition("/")[0] + "/no_such_database": (Rejected, "store.no_database"),
        base.replace("postgres:", "no_such_role:"): (Rejected, "store.access_refused"),
        f"{base}?schema=Not%20A%20Name": (Rejected, "store.postgres_schema"),
    }
    for address, (kind, code) in codes.items():
        error = await failure(address)
        assert (type(error), error.code) == (kind, code)


async def test_a_newer_format_on_postgres_is_refused(postgres_server, s3_server):
    place = postgres_place(postgres_server, s3_server)
    async with place.open(TALLY.app) as node:
        await node.world("w")
        engine = node.node.engine
        await engine.commit(Batch(set={keys.format_version(): encode({"version": 99})}))
    options = Options(store=place.options)
    error = await failure(place.address, objects=place.objects, options=options)
    assert (type(error), error.code) == (Rejected, "store.format_newer")


@pytest.mark.parametrize("trouble", ["no bucket", "wrong key", "nobody there"])
async def test_a_bucket_that_cannot_be_used_is_told_by_its_cause(tmp_path, s3_server, trouble):
    objects, credentials = s3_server.url("p"), s3_server.credentials
    match trouble:
        case "no bucket":
            objects, code = s3_server.url("p", bucket="no-such-bucket"), "objects.no_bucket"
        case "wrong key":
            credentials, code = {**credentials, "secret_access_key": SECRET}, "objects.denied"
        case _:
            objects, code = "s3://bucket/p?region=us-east-1&endpoint=http://127.0.0.1:1", "objects.remote"
    options = Options(store=StoreOptions(credentials=credentials, remote=HASTY))
    error = await failure(tmp_path / "data", objects=objects, options=options)
    assert (type(error), error.code) == (Unavailable, code)
    with pytest.raises(CelluleError) as caught:  # no world was made on the way, and nothing is bound yet
        async with cellule.open(tmp_path / "data", options=Options(create=False)) as node:
            await node.world("w", create=False)
    assert caught.value.code in ("host.no_universe", "host.no_world", "store.no_data")


async def test_an_object_store_belongs_to_one_store(tmp_path):
    one, two = folder_place(tmp_path / "one", objects=True), folder_place(tmp_path / "two", objects=True)
    for place in (one, two):
        async with place.open(TALLY.app) as node:
            await (await node.world("w")).send(TALLY.Keep("a", "x" * 30_000))
    assert (await failure(one.address)).code == "store.objects_missing"
    assert (await failure(one.address, objects=two.objects)).code == "store.objects_wrong"
    assert (await failure(one.address, objects=str(tmp_path / "empty"))).code == "store.objects_wrong"
    assert (await failure(tmp_path / "new", objects=one.objects)).code == "store.objects_taken"
    assert (
        await failure(tmp_path / "new", objects=tmp_path / "none" / "below")
    ).code == "objects.folder_gone"
    async with one.open(TALLY.app) as node:
        world = await node.world("w")
        assert (await world.cell(TALLY.shelf, "a").state()).text == "x" * 30_000


async def test_objects_may_be_given_to_a_store_that_had_none(tmp_path):
    place = folder_place(tmp_path, objects=True)
    async with cellule.open(place.address, TALLY.app) as node:
        await (await node.world("w")).send(TALLY.Keep("a", "x" * 30_000))
    async with place.open(TALLY.app) as node:
        world = await node.world("w")
        await world.send(TALLY.Keep("b", "y" * 30_000))
        assert (await world.cell(TALLY.shelf, "a").state()).text == "x" * 30_000
    await place.prove()


class Interrupted(Exception):
    """What a crash looks like from outside."""


@pytest.mark.parametrize("cut", range(4))
async def test_a_binding_that_was_interrupted_anywhere_is_finished_by_the_next_open(cut):
    disk, objects, steps = MemoryDisk(), MemoryObjects(), iter(range(9))

    class Cut(MemoryEngine):
        async def commit(self, batch):
            if next(steps) == cut:
                raise Interrupted
            return await super().commit(batch)

    class CutObjects:
        def __getattr__(self, name):
            return getattr(objects, name)

        async def put(self, name, data):
            if next(steps) == cut:
                raise Interrupted
            await objects.put(name, data)

    try:
        await bind_objects(Cut(disk), CutObjects(), "here", SystemEntropy())
    except Interrupted:
        assert cut < 3
    engine = MemoryEngine(disk)
    await bind_objects(engine, objects, "here", SystemEntropy())
    await bind_objects(engine, objects, "here", SystemEntropy(), create=False)
    with pytest.raises(Rejected) as caught:
        await bind_objects(engine, MemoryObjects(), "elsewhere", SystemEntropy())
    assert caught.value.code == "store.objects_wrong"


async def test_a_damaged_row_of_the_binding_is_told():
    engine = MemoryEngine(MemoryDisk())
    await engine.commit(Batch(set={keys.store_objects(): encode({"id": str(UUID(int=1))})}))
    with pytest.raises(Corrupted) as caught:
        await bind_objects(engine, MemoryObjects(), "here", SystemEntropy())
    assert caught.value.code == "store.objects_damaged"


@pytest.mark.parametrize("place", [POSTGRES_AND_S3], indirect=True)
async def test_reading_makes_nothing(place, postgres_server):
    before = await schemas(postgres_server)
    error = await failure(
        place.address, objects=place.objects, options=Options(store=place.options, create=False)
    )
    assert error.code == "store.no_data"
    assert await schemas(postgres_server) == before
    async with place.open(TALLY.app) as node:
        await node.world("w")
