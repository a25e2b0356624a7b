"""The conformance suite of object stores: what every one of them promises.

Subclass `ObjectStoreConformance` in a test module and give it a fixture `open_store`, a coroutine function
that opens the same empty store in any event loop; the suite closes what it gives.
"""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from cellule.errors import Rejected, Unavailable
from cellule.store.object_store import LIST_LIMIT_MAX, ObjectStore
from cellule.testing.conformance.object_machine import (
    ObjectMachineCases,
    OpenStore,
    names_in,
    pieces_of,
    sample,
    streamed,
)

LARGE_BYTES = 3_000_001


async def failing_after(data: bytes, pieces: int, error: Exception) -> AsyncIterator[bytes]:
    """Yield `data` some times, then fail."""
    for _ in range(pieces):
        yield data
    raise error


class ObjectStoreConformance(ObjectMachineCases):
    """Cases every object store passes; a subclass named `Test...` gives `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Open the store under test; given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, open_store: OpenStore) -> AsyncIterator[ObjectStore]:
        """The store under test, closed when the case ends."""
        async with await open_store() as store:
            yield store

    @pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, LARGE_BYTES])
    async def test_a_body_comes_back_whole(self, store: ObjectStore, size: int) -> None:
        body = sample(size)
        await store.put("folder/body", body)
        assert await store.get("folder/body") == body
        assert await streamed(store, "folder/body") == body
        assert await store.size("folder/body") == size

    @pytest.mark.parametrize(("size", "piece_bytes"), [(0, 1), (10, 3), (LARGE_BYTES, 100_000)])
    async def test_a_streamed_body_comes_back_whole(
        self, store: ObjectStore, size: int, piece_bytes: int
    ) -> None:
        body = sample(size)
        await store.put("folder/body", pieces_of(body, piece_bytes))
        assert await store.get("folder/body") == body

    async def test_a_missing_object_is_refused_everywhere(self, store: ObjectStore) -> None:
        for read in (store.get, store.size, lambda name: streamed(store, name)):
            with pytest.raises(Rejected) as caught:
                await read("folder/none")
            assert caught.value.code == "objects.not_found"

    async def test_an_object_in_a_missing_folder_is_refused(self, store: ObjectStore) -> None:
        await store.put("here/object", b"1")
        with pytest.raises(Rejected) as caught:
            await store.get("nowhere/at/all")
        assert caught.value.code == "objects.not_found"

    async def test_the_same_body_may_be_put_again(self, store: ObjectStore) -> None:
        await store.put("folder/body", b"same")
        await store.put("folder/body", b"same")
        assert await names_in(store, "", 10) == ["folder/body"]
        assert await store.get("folder/body") == b"same"

    async def test_concurrent_puts_of_one_name_leave_one_whole_body(self, store: ObjectStore) -> None:
        bodies = [bytes([number]) * 50_000 for number in range(6)]
        async with asyncio.TaskGroup() as group:
            for body in bodies:
                group.create_task(store.put("folder/body", body))
        assert await store.get("folder/body") in bodies
        assert await names_in(store, "", 10) == ["folder/body"]

    async def test_many_names_may_be_put_at_once(self, store: ObjectStore) -> None:
        bodies = {f"folder-{number % 5}/sub/{number:03d}": sample(number * 97) for number in range(40)}
        async with asyncio.TaskGroup() as group:
            for name, body in bodies.items():
                group.create_task(store.put(name, body))
        assert await names_in(store, "", 100) == sorted(bodies)
        assert {name: await store.get(name) for name in bodies} == bodies

    async def test_a_source_that_fails_passes_its_error_and_leaves_nothing(self, store: ObjectStore) -> None:
        for pieces in (0, 1, 25):
            failure = RuntimeError("the source failed")
            with pytest.raises(RuntimeError, match="the source failed"):
                await store.put("folder/body", failing_after(sample(500_000), pieces, failure))
        with pytest.raises(Rejected) as caught:
            await store.get("folder/body")
        assert caught.value.code == "objects.not_found"
        assert await names_in(store, "", 10) == []

    async def test_a_cancelled_put_leaves_nothing_half(self, store: ObjectStore) -> None:
        begun, forever = asyncio.Event(), asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield sample(200_000)
            begun.set()
            await forever.wait()

        putting = asyncio.create_task(store.put("folder/body", endless()))
        await begun.wait()
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        assert await names_in(store, "", 10) == []
        await store.put("folder/body", b"whole")
        assert await store.get("folder/body") == b"whole"

    async def test_a_deleted_object_is_gone_and_may_be_deleted_again(self, store: ObjectStore) -> None:
        await store.put("folder/one", b"1")
        await store.put("folder/two", b"2")
        await store.delete("folder/one")
        await store.delete("folder/one")
        await store.delete("never/was")
        assert await names_in(store, "", 10) == ["folder/two"]
        with pytest.raises(Rejected):
            await store.get("folder/one")

    async def test_a_deleted_name_may_be_put_again(self, store: ObjectStore) -> None:
        await store.put("folder/one", b"1")
        await store.delete("folder/one")
        await store.put("folder/one", b"2")
        assert await store.get("folder/one") == b"2"

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    async def test_listings_are_ordered_and_complete_at_every_page_size(
        self, store: ObjectStore, limit: int
    ) -> None:
        names = [
            "a/x/d",
            "a/x-0/d",
            "a/x.y/d",
            "a/x0/d",
            "a/X/d",
            "a/_x/d",
            "a/x/e",
            "b/a",
            "b-a/a",
            "c/x/y/z/w",
        ]
        for name in names:
            await store.put(name, name.encode())
        assert await names_in(store, "", limit) == sorted(names)
        assert await names_in(store, "a/", limit) == sorted(name for name in names if name.startswith("a/"))
        assert await names_in(store, "a/x/", limit) == ["a/x/d", "a/x/e"]
        assert await names_in(store, "c/x/y/", limit) == ["c/x/y/z/w"]
        assert await names_in(store, "b/", limit) == ["b/a"]
        assert await names_in(store, "none/", limit) == []

    async def test_listings_tell_sizes_and_continue_behind_any_name(self, store: ObjectStore) -> None:
        for number in range(5):
            await store.put(f"a/b/{number}", bytes(number))
        page = await store.list("a/b/", limit=10, start_after="a/b/1x")
        assert [(item.name, item.size) for item in page.items] == [("a/b/2", 2), ("a/b/3", 3), ("a/b/4", 4)]
        assert not page.more
        assert (await store.list("a/b/", limit=5)).more is False
        assert (await store.list("a/b/", limit=4)).more is True
        assert (await store.list("a/b/", limit=4, start_after="a/z")).items == []
        assert len((await store.list("a/b/", limit=9, start_after="Z/z")).items) == 5

    async def test_a_body_larger_than_allowed_is_refused_before_it_is_read(self, store: ObjectStore) -> None:
        await store.put("folder/body", bytes(1_001))
        with pytest.raises(Rejected) as caught:
            await store.get("folder/body", bytes_max=1_000)
        assert caught.value.code == "objects.too_large"
        assert len(await store.get("folder/body", bytes_max=1_001)) == 1_001

    @pytest.mark.parametrize(
        "name",
        [
            "", "one", "/a/b", "a/b/", "a//b", "a/../b", "../a/b", "a/./b", "a/.b", "a/-b", "a/b c", "a/b~c",
            "a/é", "a/b\n", "a\\b/c", "a/b\0", "a/b/c/d/e/f/g/h/i", "a/" + "b" * 239,
        ],
    )  # fmt: skip
    async def test_bad_names_are_refused_by_every_method(self, store: ObjectStore, name: str) -> None:
        calls = (
            store.put(name, b""), store.get(name), store.size(name), store.delete(name), streamed(store, name)
        )  # fmt: skip
        for call in calls:
            with pytest.raises(Rejected) as caught:
                await call
            assert caught.value.code == "objects.name"

    async def test_names_of_full_length_are_kept(self, store: ObjectStore) -> None:
        name = "a/b/c/d/e/f/g/" + "x" * 226
        await store.put(name, b"1")
        assert await names_in(store, "a/b/c/d/e/f/g/", 10) == [name]
        assert await store.get(name) == b"1"

    @pytest.mark.parametrize("prefix", ["a", "/", "a//", "../", "a/b", ".x/"])
    async def test_a_prefix_that_is_no_folder_is_refused(self, store: ObjectStore, prefix: str) -> None:
        with pytest.raises(Rejected) as caught:
            await store.list(prefix, limit=1)
        assert caught.value.code == "objects.prefix"

    @pytest.mark.parametrize("limit", [0, -1, LIST_LIMIT_MAX + 1])
    async def test_a_listing_without_a_sensible_limit_is_refused(
        self, store: ObjectStore, limit: int
    ) -> None:
        with pytest.raises(Rejected) as caught:
            await store.list("", limit=limit)
        assert caught.value.code == "objects.list_limit"

    async def test_a_stream_may_be_left_early(self, store: ObjectStore) -> None:
        await store.put("folder/body", sample(LARGE_BYTES))
        async with aclosing(store.stream("folder/body")) as pieces:
            first = await anext(pieces)
        assert sample(LARGE_BYTES).startswith(first)
        await store.delete("folder/body")
        assert await names_in(store, "", 10) == []

    async def test_a_closed_store_is_unavailable(self, store: ObjectStore) -> None:
        await store.put("folder/body", b"1")
        await store.close()
        calls = (
            store.put("folder/body", b"1"), store.get("folder/body"), store.size("folder/body"),
            store.delete("folder/body"), store.list("", limit=1), streamed(store, "folder/body"),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.code == "objects.closed"
