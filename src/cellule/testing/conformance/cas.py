"""The conformance suite of the CAS, over any engine and any object store or none.

A test module subclasses `CasConformance` and says how to open the parts under test:

    class TestMyCas(CasConformance):
        @pytest.fixture
        def open_parts(self, tmp_path):
            async def open_parts():
                return await MyEngine.open(tmp_path / "store"), None
            return open_parts

`open_parts` may be called in any event loop; the suite closes what it gives. Each case has its own universe.
"""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from uuid import UUID

import pytest

from cellule.errors import CelluleError, Conflict, Rejected
from cellule.store import keys
from cellule.store.cache import NodeCache
from cellule.store.cas import Cas
from cellule.store.cas.contract import CHUNK_BYTES, GROUP_BYTES_MAX, INLINE_BYTES_ENGINE, INLINE_BYTES_OBJECTS
from cellule.store.engine import Batch, Engine
from cellule.store.object_store import ObjectStore
from cellule.testing.conformance.cas_collection import CollectionCases
from cellule.testing.conformance.cas_damage import DamageCases
from cellule.testing.conformance.cas_machine import MachineCases
from cellule.testing.conformance.cas_roots import RootCases
from cellule.testing.conformance.object_machine import pieces_of, sample
from cellule.testing.conformance.objects import failing_after
from cellule.values.cbor import encode
from cellule.values.cid import Cid, cid_of

OpenParts = Callable[[], Awaitable[tuple[Engine, ObjectStore | None]]]
OpenCas = Callable[..., Cas]

SIZES = [
    0, 1, INLINE_BYTES_OBJECTS, INLINE_BYTES_OBJECTS + 1, INLINE_BYTES_ENGINE, INLINE_BYTES_ENGINE + 1,
    2 * CHUNK_BYTES, 16 * CHUNK_BYTES + 1, GROUP_BYTES_MAX + 1,
]  # fmt: skip


async def whole(cas: Cas, cid: Cid) -> bytes:
    """Read an object through `stream`."""
    async with aclosing(cas.stream(cid)) as pieces:
        return b"".join([piece async for piece in pieces])


class PutAndGetCases:
    """Bytes in, CID out, the same bytes back."""

    @pytest.mark.parametrize("size", SIZES)
    async def test_an_object_comes_back_in_every_way(self, open_cas: OpenCas, size: int) -> None:
        data = sample(size)
        cid = await open_cas().put(data, "raw")
        cas = open_cas()
        assert cid == cid_of(data, codec="raw")
        assert await cas.has(cid)
        assert await whole(cas, cid) == data
        async with cas.open_verified(cid) as file:
            assert file.read() == data
        assert await cas.get(cid) == data
        assert await cas.get(cid) == data

    @pytest.mark.parametrize("size", SIZES)
    async def test_a_stream_gives_the_object_that_put_gives(self, open_cas: OpenCas, size: int) -> None:
        data = sample(size)
        cid = await open_cas().put_stream(pieces_of(data, 30_011))
        assert cid == cid_of(data, codec="raw")
        assert await open_cas().get(cid) == data
        assert await open_cas().put(data, "raw") == cid

    async def test_nodes_and_blobs_of_equal_bytes_are_two_objects(self, open_cas: OpenCas) -> None:
        cas, data = open_cas(), encode({"a": 1})
        node, blob = await cas.put(data), await cas.put(data, "raw")
        assert (node.codec, blob.codec) == ("dag-cbor", "raw")
        assert [entry.cid for entry in await cas.entries(limit=10)] == sorted([node, blob])

    async def test_an_unknown_object_is_not_found(self, open_cas: OpenCas) -> None:
        cas, unknown = open_cas(), cid_of(b"unknown", codec="raw")
        assert not await cas.has(unknown)
        await is_not_found(cas, unknown)

    async def test_another_cid_than_expected_is_refused_and_nothing_is_stored(
        self, open_cas: OpenCas
    ) -> None:
        cas, other = open_cas(), cid_of(b"other", codec="raw")
        for size in (5, 100_000):
            for call in (
                cas.put(sample(size), "raw", expected=other),
                cas.put_stream(pieces_of(sample(size), 9_000), expected=other),
            ):
                with pytest.raises(Rejected) as caught:
                    await call
                assert caught.value.code == "cas.unexpected_cid"
        assert await cas.entries(limit=10) == []
        assert await cas.put(b"other", "raw", expected=other) == other

    @pytest.mark.parametrize("data", [b"", b"\x18\x01", b"\xa2\x61b\x01\x61a\x02", b"\xa0\xa0", b"\xff"])
    async def test_a_node_that_is_not_canonical_is_refused(self, open_cas: OpenCas, data: bytes) -> None:
        cas = open_cas()
        with pytest.raises(Rejected) as caught:
            await cas.put(data)
        assert caught.value.code == "cas.not_canonical"
        assert await cas.entries(limit=1) == []
        assert await cas.get(await cas.put(data, "raw")) == data

    async def test_many_objects_are_put_and_read_together(self, open_cas: OpenCas) -> None:
        blocks = [sample(size) for size in (1, 20_000, 70_000, 300_000, 1, 40, 41)] + [
            encode([number]) for number in range(600)
        ]
        cids = await open_cas().put_many(blocks, "raw")
        assert cids == [cid_of(block, codec="raw") for block in blocks]
        assert await open_cas().get_many(cids) == dict(zip(cids, blocks, strict=True))
        with pytest.raises(Rejected) as caught:
            await open_cas().get_many([*cids, cid_of(b"unknown")])
        assert caught.value.code == "cas.not_found"
        assert await open_cas().get_many([]) == {}
        assert await open_cas().put_many([]) == []

    async def test_a_hundred_puts_of_the_same_bytes_leave_one_object_and_one_body(
        self, open_cas: OpenCas
    ) -> None:
        for data in (sample(100), sample(100_000)):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(open_cas().put(data, "raw")) for _ in range(100)]
            assert {task.result() for task in tasks} == {cid_of(data, codec="raw")}
        cas = open_cas()
        assert len(await cas.entries(limit=10)) == 2
        assert await cas.get(cid_of(sample(100_000), codec="raw")) == sample(100_000)
        await cas.advance_generation()
        await cas.advance_generation()
        assert await all_orphans(cas) == 0

    async def test_a_source_that_fails_leaves_nothing_behind(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        for pieces in (0, 1, 30):
            with pytest.raises(RuntimeError, match="the source failed"):
                await cas.put_stream(
                    failing_after(sample(100_000), pieces, RuntimeError("the source failed"))
                )
        assert await cas.entries(limit=10) == []
        await cas.advance_generation()
        await cas.advance_generation()
        assert await all_orphans(cas) == 0

    async def test_a_stream_may_be_left_early(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        cid = await cas.put(sample(3_000_000), "raw")
        async with aclosing(open_cas().stream(cid)) as pieces:
            assert sample(3_000_000).startswith(await anext(pieces))
        assert await open_cas().get(cid) == sample(3_000_000)

    async def test_a_universe_does_not_find_the_objects_of_another(self, open_cas: OpenCas) -> None:
        cache = NodeCache()
        ours, theirs = open_cas(cache=cache), open_cas(universe=UUID(bytes=os.urandom(16)), cache=cache)
        for data in (b"small", sample(100_000)):
            cid = await ours.put(data, "raw")
            assert await ours.get(cid) == data
            assert not await theirs.has(cid)
            await is_not_found(theirs, cid)
            assert not await theirs.remove_if(cid, 0)
            assert await ours.has(cid)
            await theirs.put(data, "raw")
            assert await theirs.remove_if(cid, 0)
            assert await open_cas().get(cid) == data


class PartsCases:
    """Blocks in the caller's own batch."""

    async def test_parts_store_blocks_in_another_batch(
        self, open_cas: OpenCas, engine: Engine, universe: UUID
    ) -> None:
        blocks = {cid_of(data): data for data in (encode("a"), encode("b"))}
        parts = await open_cas().batch_parts(blocks)
        frame = {keys.universe_meta(universe): b"as good as any"}
        await engine.commit(Batch(expect=dict(parts.expect), set={**parts.set, **frame}))
        assert await open_cas().get_many(blocks) == blocks
        again = await open_cas().batch_parts(blocks)
        assert list(again.expect) == [keys.cas_generation(universe)]  # what roots them needs it all the same

    async def test_parts_that_lost_a_race_conflict_and_are_asked_for_again(
        self, open_cas: OpenCas, engine: Engine
    ) -> None:
        data = encode("raced for")
        parts = await open_cas().batch_parts({cid_of(data): data})
        await open_cas().put(data)
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect=dict(parts.expect), set=dict(parts.set)))
        again = await open_cas().batch_parts({cid_of(data): data})
        await engine.commit(Batch(expect=dict(again.expect), set=dict(again.set)))

    async def test_parts_recompute_the_cid(self, open_cas: OpenCas) -> None:
        with pytest.raises(Rejected) as caught:
            await open_cas().batch_parts({cid_of(b"one"): b"another"})
        assert caught.value.code == "cas.unexpected_cid"

    async def test_parts_take_large_blocks_only_where_they_fit(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None
    ) -> None:
        data = sample(200_000)
        blocks = {cid_of(data, codec="raw"): data}
        if objects is not None:
            with pytest.raises(Rejected) as caught:
                await open_cas().batch_parts(blocks)
            assert caught.value.code == "cas.parts_too_large"
            return
        parts = await open_cas().batch_parts(blocks)
        await engine.commit(Batch(expect=dict(parts.expect), set=dict(parts.set)))
        assert await open_cas().get_many(blocks) == blocks

    async def test_parts_of_more_than_a_batch_holds_are_refused(self, open_cas: OpenCas) -> None:
        blocks = [os.urandom(1_000) + bytes(15_000) for _ in range(300)]
        with pytest.raises(Rejected) as caught:
            await open_cas().batch_parts({cid_of(data, codec="raw"): data for data in blocks})
        assert caught.value.code == "cas.parts_too_large"


class CasConformance(PutAndGetCases, PartsCases, CollectionCases, RootCases, DamageCases, MachineCases):
    """All cases; a subclass named `Test...` gives `open_parts`."""

    @pytest.fixture
    def open_parts(self) -> OpenParts:
        """Open the engine and the object store under test; given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    async def parts(self, open_parts: OpenParts) -> AsyncIterator[tuple[Engine, ObjectStore | None]]:
        """One engine and object store, closed when the case ends."""
        engine, objects = await open_parts()
        try:
            yield engine, objects
        finally:
            await engine.close()
            if objects is not None:
                await objects.close()

    @pytest.fixture
    def engine(self, parts: tuple[Engine, ObjectStore | None]) -> Engine:
        """The engine under test."""
        return parts[0]

    @pytest.fixture
    def objects(self, parts: tuple[Engine, ObjectStore | None]) -> ObjectStore | None:
        """The object store under test, if there is one."""
        return parts[1]

    @pytest.fixture
    def universe(self) -> UUID:
        """A universe that no other case uses."""
        return UUID(bytes=os.urandom(16))

    @pytest.fixture
    def open_cas(self, engine: Engine, objects: ObjectStore | None, universe: UUID) -> OpenCas:
        """Make one more `Cas`, with a cache of its own and otherwise as the arguments say."""

        def open_cas(**changes: object) -> Cas:
            options: dict[str, object] = {
                "engine": engine,
                "universe": universe,
                "objects": objects,
                **changes,
            }
            return Cas(**options)  # type: ignore[arg-type]

        return open_cas


async def is_not_found(cas: Cas, cid: Cid) -> None:
    """Check that every way of reading says the same."""

    async def opened() -> None:
        async with cas.open_verified(cid):
            pytest.fail("an object was found")

    for call in (lambda: cas.get(cid), lambda: cas.get_many([cid]), lambda: whole(cas, cid), opened):
        with pytest.raises(CelluleError) as caught:
            await call()
        assert isinstance(caught.value, Rejected)
        assert (caught.value.code, caught.value.fields) == ("cas.not_found", {"cid": str(cid)})


async def all_orphans(cas: Cas, limit: int = 100) -> int:
    """Count orphans over all pages."""
    count, after = 0, ""
    while True:
        page = await cas.orphans(limit=limit, after=after)
        count += len(page.items)
        if not page.after:
            return count
        after = page.after
