"""The remote object store keeps every promise of the contract on a real S3 server, also on one that fails."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import uuid
from dataclasses import replace
from functools import partial

import pytest

from cellule.errors import CelluleError, OutcomeUnknown, Rejected, Unavailable
from cellule.store.objects.options import RemoteOptions
from cellule.store.objects.remote import RemoteObjects
from cellule.testing.conformance.object_machine import names_in, pieces_of, sample, streamed
from cellule.testing.conformance.objects import ObjectStoreConformance
from tests.support.servers.process import program_path
from tests.support.servers.s3 import S3Server

IMPATIENT = RemoteOptions(
    connect_timeout_ms=1_000,
    stall_timeout_ms=10_000,
    retries_max=2,
    retry_for_ms=5_000,
    backoff_min_ms=10,
    backoff_max_ms=50,
)
SMALL_PARTS = RemoteOptions(part_bytes=5_300_000, parts_in_flight=2)
LARGE = sample(30_000_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if program_path(S3Server.program) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("rclone is not installed")
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def connect(server):
    """Open the same folder of the bucket, one per test, with any options."""
    url = server.url(f"objects/{uuid.uuid4()}")
    return partial(RemoteObjects.open, url, credentials=server.credentials)


@pytest.fixture
def fragile(tmp_path):
    """A server of this test alone, to be killed."""
    if program_path(S3Server.program) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("rclone is not installed")
    with S3Server(tmp_path / "s3") as server:
        yield server


class TestRemoteObjects(ObjectStoreConformance):
    @pytest.fixture
    def open_store(self, connect):
        async def open_store():
            return connect()

        return open_store


async def test_a_body_of_many_parts_comes_back_whole(connect):
    async with connect(options=SMALL_PARTS) as store:
        await store.put("a/bytes", LARGE)
        await store.put("a/stream", pieces_of(LARGE, 999_983))
        assert await store.get("a/bytes") == LARGE
        assert await streamed(store, "a/stream") == LARGE
        assert await store.size("a/stream") == len(LARGE)


async def test_listings_of_more_names_than_a_server_page_are_complete(connect):
    async with connect() as store:
        names = [f"a/{number:04d}" for number in range(1_100)]
        for start in range(0, len(names), 100):
            await asyncio.gather(*[store.put(name, b"") for name in names[start : start + 100]])
        assert await names_in(store, "a/", 1_000) == names


async def test_a_source_that_fails_after_some_parts_leaves_nothing(connect):
    async def failing():
        for _ in range(12):
            yield sample(1_000_000)
        raise OSError("the source failed")

    async with connect(options=SMALL_PARTS) as store:
        with pytest.raises(OSError, match="the source failed"):
            await store.put("a/b", failing())
        assert await names_in(store, "", 10) == []


async def test_what_cannot_be_reached_is_unavailable_and_comes_back_after_a_restart(fragile):
    async with RemoteObjects.open(fragile.url(), credentials=fragile.credentials, options=IMPATIENT) as store:
        await store.put("a/b", b"1")
        fragile.kill()
        for call in (
            partial(store.get, "a/b"),
            partial(store.size, "a/b"),
            partial(store.delete, "a/b"),
            partial(store.list, "", limit=1),
            partial(streamed, store, "a/b"),
        ):
            with pytest.raises(Unavailable) as caught:
                await call()
            assert caught.value.code == "objects.remote"
        with pytest.raises(OutcomeUnknown) as caught:
            await store.put("a/c", b"2")
        assert caught.value.code == "objects.outcome_unknown"
        fragile.start()
        assert await store.get("a/b") == b"1"
        await store.put("a/c", b"2")
        assert await names_in(store, "", 10) == ["a/b", "a/c"]


async def test_a_server_that_stops_answering_is_unavailable(fragile):
    async with RemoteObjects.open(fragile.url(), credentials=fragile.credentials, options=IMPATIENT) as store:
        await store.put("a/b", b"1")
        fragile.freeze()
        options = replace(IMPATIENT, stall_timeout_ms=300)
        async with RemoteObjects.open(
            fragile.url(), credentials=fragile.credentials, options=options
        ) as hasty:
            with pytest.raises(Unavailable):
                await hasty.get("a/b")
            with pytest.raises(OutcomeUnknown):
                await hasty.put("a/c", b"2")
        fragile.thaw()
        assert await store.get("a/b") == b"1"


@pytest.mark.parametrize("restarts", [False, True], ids=["killed", "killed and restarted"])
async def test_a_server_killed_during_an_upload_leaves_the_whole_body_or_nothing(fragile, restarts):
    async def interrupted():
        for number in range(30):
            if number == 15:
                fragile.kill()
                if restarts:
                    fragile.start()
            yield LARGE[number * 1_000_000 : (number + 1) * 1_000_000]

    options = replace(IMPATIENT, part_bytes=5_300_000, parts_in_flight=1)
    async with RemoteObjects.open(fragile.url(), credentials=fragile.credentials, options=options) as store:
        await store.put("a/before", b"1")
        with pytest.raises(OutcomeUnknown):
            await store.put("a/b", interrupted())
        if not restarts:
            fragile.start()
        assert await names_in(store, "", 10) == ["a/before"]
        await store.put("a/b", pieces_of(LARGE, 1_000_000))
        assert await store.get("a/b") == LARGE


@pytest.mark.parametrize("restarts", [False, True], ids=["killed", "killed and restarted"])
async def test_a_server_killed_during_a_read_never_ends_it_quietly(fragile, restarts):
    async with RemoteObjects.open(fragile.url(), credentials=fragile.credentials, options=IMPATIENT) as store:
        await store.put("a/b", LARGE)
        read = bytearray()
        pieces = store.stream("a/b")
        try:
            async for piece in pieces:
                if not read:
                    fragile.kill()
                    if restarts:
                        fragile.start()
                read += piece
            assert restarts
            assert bytes(read) == LARGE
        except Unavailable:
            assert len(read) < len(LARGE)
        finally:
            await pieces.aclose()


async def test_a_missing_bucket_is_unavailable_and_its_objects_are_not_missing(server):
    async with RemoteObjects.open(
        server.url(bucket="no-such-bucket"), credentials=server.credentials
    ) as store:
        for call in (
            partial(store.get, "a/b"),
            partial(store.size, "a/b"),
            partial(store.list, "", limit=1),
            partial(store.put, "a/b", b"1"),
        ):
            with pytest.raises(Unavailable) as caught:
                await call()
            assert caught.value.code == "objects.no_bucket"


async def test_wrong_credentials_are_denied_and_never_shown(server):
    secret = "a-secret-that-must-not-be-shown"
    credentials = {"access_key_id": server.access_key, "secret_access_key": secret}
    async with RemoteObjects.open(server.url(), credentials=credentials) as store:
        for call in (partial(store.get, "a/b"), partial(store.put, "a/b", b"1")):
            with pytest.raises(Unavailable) as caught:
                await call()
            error = caught.value
            assert error.code == "objects.denied"
            assert error.__cause__ is None
            shown = f"{error} {error!r} {error.fields} {store!r} {pickle.dumps(error)!r}"
            assert secret not in shown
            assert server.access_key not in shown
            assert "SignatureDoesNotMatch" in str(error)


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("s3://bucket/prefix?region=eu-west-1", {"access_key_id": "a", "secret_access_key": "b"}),
        ("gs://bucket/prefix", {}),
        ("az://container/prefix?account_name=account", {"account_key": "c2VjcmV0"}),
    ],
)
def test_every_kind_of_store_is_chosen_by_its_address(url, credentials):
    store = RemoteObjects.open(url, credentials=credentials)
    assert repr(store) == f"RemoteObjects({url.partition('?')[0]!r})"
    assert store.remote


@pytest.mark.parametrize(
    "url",
    [
        "file:///tmp/x", "memory:///", "http://host/x", "s3://", "bucket/prefix", "s3://b/p#f",
        "s3://b/p?region", "s3://b/p?a=1&a=2",
    ],
)  # fmt: skip
def test_addresses_that_are_not_understood_are_refused(url):
    with pytest.raises(Rejected) as caught:
        RemoteObjects.open(url)
    assert caught.value.code == "objects.address"


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/p", "s3://bucket/p?secret_access_key=hush", "s3://bucket/p?AWS_ACCESS_KEY_ID=hush",
        "az://c/p?sas_token=hush", "gs://b/p?service_account_key=hush",
    ],
)  # fmt: skip
def test_addresses_that_hold_credentials_are_refused_without_showing_them(url):
    with pytest.raises(Rejected) as caught:
        RemoteObjects.open(url)
    assert caught.value.code == "objects.credentials_in_address"
    assert "hush" not in f"{caught.value!r} {caught.value.fields}"


def test_unknown_options_are_refused_without_showing_credentials():
    with pytest.raises(CelluleError) as caught:
        RemoteObjects.open("s3://bucket/p?nonsense=1", credentials={"secret_access_key": "hush"})
    assert caught.value.code == "objects.configuration"
    assert "hush" not in f"{caught.value!r} {caught.value.fields}"


@pytest.mark.parametrize(
    "options",
    [
        {"backoff_min_ms": 50, "backoff_max_ms": 50}, {"connect_timeout_ms": 0}, {"retries_max": -1},
        {"part_bytes": 5_000_000}, {"parts_in_flight": 0},
    ],
)  # fmt: skip
def test_options_that_would_fail_in_the_middle_of_something_are_refused(options):
    with pytest.raises(Rejected) as caught:
        RemoteOptions(**options)
    assert caught.value.code == "objects.options"


def test_a_process_that_ends_right_after_a_failure_ends_in_order():
    """The driver's threads aborted the process when they still held a result while the interpreter ended."""
    program = """
import asyncio
from cellule.errors import Unavailable
from cellule.store.objects.options import RemoteOptions
from cellule.store.objects.remote import RemoteObjects

async def main():
    options = RemoteOptions(retries_max=1, backoff_min_ms=1, backoff_max_ms=2)
    keys = {"access_key_id": "a" * 20, "secret_access_key": "b" * 20}
    url = "s3://bucket/x?region=us-east-1&endpoint=http://127.0.0.1:9"
    async with RemoteObjects.open(url, credentials=keys, options=options) as store:
        try:
            await store.get("a/b")
        except Unavailable:
            print("unavailable")

asyncio.run(main())
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "unavailable\n"), done.stderr
