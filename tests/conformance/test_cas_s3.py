"""The CAS keeps every promise with its large bodies in S3, and reads those on the local disk from there."""

from __future__ import annotations

import os
import uuid

import pytest

from cellule.errors import Corrupted, Unavailable
from cellule.store.cache import DiskCache
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryEngine
from cellule.store.objects.options import RemoteOptions
from cellule.store.objects.remote import RemoteObjects
from cellule.testing.conformance.cas import CasConformance
from cellule.testing.conformance.object_machine import sample
from tests.support.servers.process import program_path
from tests.support.servers.s3 import S3Server

IMPATIENT = RemoteOptions(connect_timeout_ms=1_000, retries_max=1, backoff_min_ms=10, backoff_max_ms=20)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if program_path(S3Server.program) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("rclone is not installed")
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


class TestCasInMemoryWithS3(CasConformance):
    @pytest.fixture
    def open_parts(self, server):
        async def open_parts():
            return MemoryEngine(), RemoteObjects.open(
                server.url(f"cas/{uuid.uuid4()}"), credentials=server.credentials
            )

        return open_parts


@pytest.fixture
async def parts(tmp_path):
    """An engine, a server of this test alone, its object store and a disk cache."""
    if program_path(S3Server.program) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("rclone is not installed")
    with S3Server(tmp_path / "s3") as server:
        objects = RemoteObjects.open(server.url(), credentials=server.credentials, options=IMPATIENT)
        async with MemoryEngine() as engine, objects:
            yield engine, server, objects, await DiskCache.open(tmp_path / "cache")


async def test_a_body_on_the_local_disk_is_read_without_the_server(parts):
    engine, server, objects, disk = parts
    universe, data = uuid.uuid4(), sample(100_000)
    cid = await Cas(engine, universe, objects=objects).put(data, "raw")
    assert await Cas(engine, universe, objects=objects, disk=disk).get(cid) == data
    server.kill()
    assert await Cas(engine, universe, objects=objects, disk=disk).get(cid) == data
    with pytest.raises(Unavailable):
        await Cas(engine, universe, objects=objects).get(cid)


async def test_a_damaged_body_on_the_local_disk_is_fetched_again(parts, tmp_path):
    engine, _, objects, disk = parts
    universe, data = uuid.uuid4(), sample(100_000)
    cid = await Cas(engine, universe, objects=objects).put(data, "raw")
    await Cas(engine, universe, objects=objects, disk=disk).get(cid)
    [path] = (tmp_path / "cache").iterdir()
    path.write_bytes(data[:-1] + b"?")
    assert await Cas(engine, universe, objects=objects, disk=disk).get(cid) == data
    assert path.read_bytes() == data


async def test_a_universe_does_not_find_the_objects_of_another_on_the_local_disk(parts):
    engine, _, objects, disk = parts
    cid = await Cas(engine, uuid.uuid4(), objects=objects, disk=disk).put(sample(100_000), "raw")
    other = Cas(engine, uuid.uuid4(), objects=objects, disk=disk)
    assert not await other.has(cid)


async def test_a_body_damaged_in_the_bucket_is_found_and_not_cached(parts, tmp_path):
    engine, server, objects, disk = parts
    universe, data = uuid.uuid4(), sample(100_000)
    cid = await Cas(engine, universe, objects=objects).put(data, "raw")
    [path] = [path for path in server.bucket_folder().rglob("*") if path.is_file()]
    path.write_bytes(data[:-1] + b"?")
    with pytest.raises(Corrupted):
        await Cas(engine, universe, objects=objects, disk=disk).get(cid)
    assert list((tmp_path / "cache").iterdir()) == []
    path.write_bytes(data)
    assert await Cas(engine, universe, objects=objects, disk=disk).get(cid) == data


async def test_a_put_that_cannot_reach_the_server_stores_no_row(parts):
    engine, server, objects, _ = parts
    cas = Cas(engine, uuid.uuid4(), objects=objects)
    server.kill()
    with pytest.raises(Unavailable):
        await cas.put(sample(100_000), "raw")
    assert await cas.entries(limit=1) == []
    await cas.put(sample(10), "raw")
    server.start()
    cid = await cas.put(sample(100_000), "raw")
    assert await cas.get(cid) == sample(100_000)
