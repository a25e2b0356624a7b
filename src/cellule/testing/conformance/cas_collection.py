"""Cases of collection: generations, conditional removal, orphans, and their races with put."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest

from cellule.errors import Corrupted, Rejected, Unavailable
from cellule.sources import SystemEntropy
from cellule.store import keys
from cellule.store.cas import Cas, Entry, Orphan
from cellule.store.cas.bodies import Bodies
from cellule.store.cas.contract import INLINE_BYTES_ENGINE, INLINE_BYTES_OBJECTS
from cellule.store.engine import Batch, Engine, Stamp
from cellule.store.object_store import ObjectStore
from cellule.store.tuples import unpack
from cellule.testing.conformance.object_machine import sample
from cellule.values.cid import Cid, cid_of

OpenCas = Callable[..., Cas]

SMALL, LARGE = sample(10), sample(150_000)


async def orphans_of(cas: Cas, limit: int) -> list[Orphan]:
    """Read a whole listing of orphans page by page."""
    found, after = [], ""
    while True:
        page = await cas.orphans(limit=limit, after=after)
        found += page.items
        if not page.after:
            return found
        after = page.after


async def stored_bodies(engine: Engine, objects: ObjectStore | None, universe: UUID) -> int:
    """Count the bodies there are, named by a row or not."""
    first, last = bytes(16), b"\xff" * 16
    begin, end = keys.cas_chunk_range(universe, first)[0], keys.cas_chunk_range(universe, last)[1]
    page = await engine.scan(begin, end, limit=1_000)
    bodies = {unpack(key)[3] for key, _ in page.items}
    listed = [] if objects is None else (await objects.list(f"cas/{universe}/", limit=1_000)).items
    return len(bodies) + len(listed)


async def generations_of(cas: Cas, cids: list[Cid]) -> set[int]:
    """Return the generations that these objects have."""
    found: dict[Cid, int] = {}
    after = None
    while page := await cas.entries(limit=500, after=after):
        found.update({entry.cid: entry.generation for entry in page})
        after = page[-1].cid
    return {found[cid] for cid in cids}


class InterruptedEngine:
    """An engine before whose first commit something else happens."""

    def __init__(self, engine: Engine, interruption: Callable[[], Awaitable[None]]) -> None:
        self.read = engine.read
        self.scan = engine.scan
        self._engine = engine
        self._interruption = interruption
        self.commits = 0

    async def commit(self, batch: Batch) -> list[Stamp]:
        """Let the interruption happen once, then commit."""
        self.commits += 1
        if self.commits == 1:
            await self._interruption()
        return await self._engine.commit(batch)


class CollectionCases:
    """What a collector may rely on."""

    async def test_put_renews_the_generation_of_what_is_there(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        cids = await cas.put_many([SMALL, LARGE], "raw")
        assert await cas.generation() == 0
        assert [await cas.advance_generation() for _ in range(3)] == [1, 2, 3]
        assert {entry.generation for entry in await cas.entries(limit=10)} == {0}
        await open_cas().put(LARGE, "raw")
        assert await cas.entries(limit=10) == sorted(
            [Entry(cids[0], 0), Entry(cids[1], 3)], key=lambda entry: entry.cid
        )
        assert await open_cas().get(cids[1]) == LARGE

    async def test_put_renews_many_large_rows(self, open_cas: OpenCas) -> None:
        """A renewal carries every row twice, as expected and as set, and must fit a batch all the same."""
        for size, count in ((INLINE_BYTES_OBJECTS, 300), (INLINE_BYTES_ENGINE, 70)):
            blocks = [number.to_bytes(2, "big") + bytes(size - 2) for number in range(count)]
            cas = open_cas()
            cids = await cas.put_many(blocks, "raw")
            generation = await cas.advance_generation()
            assert await cas.put_many(blocks, "raw") == cids
            assert await generations_of(cas, cids) == {generation}
            assert await open_cas().get_many(cids) == dict(zip(cids, blocks, strict=True))

    async def test_entries_come_in_pages(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        cids = sorted(await cas.put_many([bytes([number]) for number in range(7)], "raw"))
        first = await cas.entries(limit=3)
        assert [entry.cid for entry in first] == cids[:3]
        assert [entry.cid for entry in await cas.entries(limit=10, after=first[-1].cid)] == cids[3:]
        assert await cas.entries(limit=10, after=cids[-1]) == []

    @pytest.mark.parametrize("limit", [0, 501])
    async def test_pages_without_a_sensible_limit_are_refused(self, open_cas: OpenCas, limit: int) -> None:
        for call in (open_cas().entries, open_cas().orphans):
            with pytest.raises(Rejected) as caught:
                await call(limit=limit)
            assert caught.value.code == "cas.page_limit"

    async def test_concurrent_advances_each_begin_a_generation(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        begun = await asyncio.gather(*[cas.advance_generation() for _ in range(5)])
        assert sorted(begun) == [1, 2, 3, 4, 5]
        assert await cas.generation() == 5

    async def test_removal_takes_the_object_and_its_body(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None, universe: UUID
    ) -> None:
        cas = open_cas()
        cids = await cas.put_many([SMALL, LARGE], "raw")
        assert await stored_bodies(engine, objects, universe) == 1
        for cid in cids:
            assert await cas.remove_if(cid, 0)
            assert not await cas.remove_if(cid, 0)
            assert not await cas.has(cid)
            with pytest.raises(Rejected) as caught:
                await cas.get(cid)
            assert caught.value.code == "cas.not_found"
        assert await stored_bodies(engine, objects, universe) == 0

    async def test_an_object_renewed_meanwhile_is_not_removed(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        cid = await cas.put(LARGE, "raw")
        await cas.advance_generation()
        await cas.put(LARGE, "raw")
        assert not await cas.remove_if(cid, 0)
        assert await open_cas().get(cid) == LARGE
        assert await cas.remove_if(cid, 1)

    async def test_a_removed_object_may_be_put_again(self, open_cas: OpenCas) -> None:
        for data in (SMALL, LARGE):
            cid = await open_cas().put(data, "raw")
            assert await open_cas().remove_if(cid, 0)
            assert await open_cas().put(data, "raw") == cid
            assert await open_cas().get(cid) == data

    @pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
    async def test_puts_that_race_with_removals_end_with_the_object(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None, universe: UUID, data: bytes
    ) -> None:
        cid = cid_of(data, codec="raw")
        removed, putting = 0, 2

        async def remove() -> None:
            nonlocal removed
            while putting:
                removed += await open_cas().remove_if(cid, 0)

        async def put() -> None:
            nonlocal putting
            for _ in range(10):
                await open_cas().put(data, "raw")
            putting -= 1

        async def read() -> None:
            while putting:
                try:
                    assert await open_cas().get(cid) == data
                except Rejected as error:
                    assert error.code == "cas.not_found"  # noqa: PT017

        async with asyncio.TaskGroup() as group:
            for work in (put, put, remove, read):
                group.create_task(work())
        assert removed
        await open_cas().put(data, "raw")
        assert await open_cas().get(cid) == data
        for _ in range(2):
            await open_cas().advance_generation()
        # Some servers acknowledge the deletion of a body that is being read and keep it: an orphan, no loss.
        for orphan in await orphans_of(open_cas(), 10):
            await open_cas().remove_orphan(orphan)
        assert await stored_bodies(engine, objects, universe) == (1 if data is LARGE else 0)
        assert await open_cas().get(cid) == data

    async def test_a_body_left_behind_is_an_orphan_after_two_generations(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None, universe: UUID
    ) -> None:
        cas = open_cas()
        kept = await cas.put(LARGE, "raw")
        await self._leave_behind(engine, objects, universe, 3)
        for _ in range(2):
            assert await orphans_of(cas, 2) == []
            await cas.advance_generation()
        orphans = await orphans_of(cas, 100)
        assert len(orphans) == 3
        for limit in (1, 2):
            assert await orphans_of(cas, limit) == orphans
        for orphan in orphans:
            await cas.remove_orphan(orphan)
            await cas.remove_orphan(orphan)
        assert await orphans_of(cas, 10) == []
        assert await stored_bodies(engine, objects, universe) == 1
        assert await open_cas().get(kept) == LARGE

    async def test_a_listing_of_orphans_continues_only_itself(self, open_cas: OpenCas) -> None:
        for after in ("nonsense", "chunks:", "chunks:zz", "chunks:" + "0" * 31):
            with pytest.raises(Rejected) as caught:
                await open_cas().orphans(limit=1, after=after)
            assert caught.value.code == "cas.orphans_after"

    async def test_a_body_that_names_no_object_is_found_damaged(
        self, open_cas: OpenCas, engine: Engine, universe: UUID
    ) -> None:
        await engine.commit(Batch(set={keys.cas_chunk(universe, bytes(16), 0): b"no CID"}))
        for _ in range(2):
            await open_cas().advance_generation()
        with pytest.raises(Corrupted) as caught:
            await open_cas().orphans(limit=1)
        assert caught.value.code == "cas.owner_damaged"

    async def test_a_put_overtaken_by_two_generations_writes_its_body_anew(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None, universe: UUID
    ) -> None:
        async def overtake() -> None:
            await open_cas().advance_generation()
            await open_cas().advance_generation()

        slow = InterruptedEngine(engine, overtake)
        cid = await open_cas(engine=slow).put(LARGE, "raw")
        assert slow.commits == 2
        assert await open_cas().entries(limit=10) == [Entry(cid, 2)]
        assert await open_cas().get(cid) == LARGE
        assert await stored_bodies(engine, objects, universe) == 1
        assert await orphans_of(open_cas(), 10) == []

    async def test_a_stream_overtaken_by_two_generations_is_unavailable_or_stored_safely(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None, universe: UUID
    ) -> None:
        async def slow() -> AsyncIterator[bytes]:
            yield LARGE
            await open_cas().advance_generation()
            await open_cas().advance_generation()
            yield LARGE

        if objects is None:
            with pytest.raises(Unavailable) as caught:
                await open_cas().put_stream(slow())
            assert caught.value.code == "cas.overtaken"
        else:
            cid = await open_cas().put_stream(slow())
            assert await open_cas().get(cid) == LARGE + LARGE
        assert await orphans_of(open_cas(), 10) == []
        assert await stored_bodies(engine, objects, universe) == (0 if objects is None else 1)

    async def _leave_behind(
        self, engine: Engine, objects: ObjectStore | None, universe: UUID, count: int
    ) -> None:
        """Do what a process does that crashes between writing bodies and naming them in a row."""
        bodies = Bodies(engine, universe, objects, SystemEntropy())
        for number in range(count):
            data = sample(200_000) + bytes([number])
            if objects is not None:
                await bodies.upload(cid_of(data, codec="raw"), data, len(data), 0)
                continue
            draft = bodies.draft(0)
            await draft.write(data)
            await draft.finish(cid_of(data, codec="raw"))
