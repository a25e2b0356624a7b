"""Cases of damage: every flipped bit and every cut of a stored body is found when it is read."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import aclosing
from uuid import UUID

import pytest

from cellule.errors import CelluleError, Corrupted
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.cas.rows import Chunked, Inline, Stored, decode_row, object_name
from cellule.store.engine import Batch, Engine
from cellule.store.object_store import ObjectStore
from cellule.values.cid import Cid

OpenCas = Callable[..., Cas]


BODY = bytes(range(40))


def damages(data: bytes) -> Iterator[bytes]:
    """Yield `data` with each bit flipped, cut at each length, and with a byte too many."""
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)
    for length in range(len(data)):
        yield data[:length]
    yield data + b"\0"


async def read_all_ways(cas: Cas, cid: Cid) -> list[str]:
    """Read an object in every way and return the codes of the errors; an empty one where it was read."""

    async def streamed() -> None:
        async with aclosing(cas.stream(cid)) as pieces:
            assert b"".join([piece async for piece in pieces]) == BODY

    async def opened() -> None:
        async with cas.open_verified(cid) as file:
            assert file.read() == BODY

    async def got() -> None:
        assert await cas.get(cid) == BODY

    codes = []
    for read in (streamed, opened, got):
        try:
            await read()
            codes.append("")
        except Corrupted as error:
            codes.append(error.code)
    return codes


class DamageCases:
    """Nothing that is damaged is returned, and whatever is not is."""

    async def test_every_damage_of_a_body_outside_its_row_is_found(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None, universe: UUID
    ) -> None:
        cid, place = await self._outside(open_cas, engine, universe)
        for damaged in damages(BODY):
            if objects is not None:
                await objects.put(object_name(universe, cid, place.body), damaged)
            else:
                await engine.commit(Batch(set={keys.cas_chunk(universe, place.body, 1): damaged}))
            assert await read_all_ways(open_cas(missed_pauses_s=[0.0]), cid) == ["cas.damaged"] * 3

    async def test_every_damage_of_an_inline_object_is_found(
        self, open_cas: OpenCas, engine: Engine, universe: UUID
    ) -> None:
        """What the engine's checksum would find is written with a right one here: the CID finds it too."""
        cid = await open_cas().put(BODY, "raw")
        key = keys.cas(universe, cid)
        stored = (await engine.read([key]))[0]
        assert stored is not None
        undetected = []
        for damaged in damages(stored):
            await engine.commit(Batch(set={key: damaged}))
            codes = await read_all_ways(open_cas(missed_pauses_s=[0.0]), cid)
            assert codes[0] in ("", "cas.damaged", "cas.row_damaged")
            assert len(set(codes)) == 1
            if codes[0] == "":
                undetected.append(damaged)
        # A changed generation is no damage of the object; the engine's checksum guards that one alone.
        assert all(_is_same_object(cid, damaged) for damaged in undetected)
        assert len(undetected) <= 8

    async def test_every_damage_of_a_row_that_names_a_body_is_found(
        self, open_cas: OpenCas, engine: Engine, universe: UUID
    ) -> None:
        cid, place = await self._outside(open_cas, engine, universe)
        key = keys.cas(universe, cid)
        stored = (await engine.read([key]))[0]
        assert stored is not None
        for damaged in damages(stored):
            await engine.commit(Batch(set={key: damaged}))
            try:
                codes = await read_all_ways(open_cas(missed_pauses_s=[0.0]), cid)
            except CelluleError as error:
                pytest.fail(f"{damaged.hex()} gave {error!r}")
            if set(codes) == {""}:
                assert decode_row(cid, damaged).place == place
            else:
                assert set(codes) <= {"cas.damaged", "cas.row_damaged"}

    async def test_a_missing_body_is_damage_and_no_missing_object(
        self, open_cas: OpenCas, engine: Engine, objects: ObjectStore | None, universe: UUID
    ) -> None:
        cid, place = await self._outside(open_cas, engine, universe)
        if objects is not None:
            await objects.delete(object_name(universe, cid, place.body))
        else:
            await engine.commit(Batch(clear=[keys.cas_chunk(universe, place.body, 1)]))
        assert await read_all_ways(open_cas(missed_pauses_s=[0.0]), cid) == ["cas.damaged"] * 3
        assert await open_cas().has(cid)

    async def test_a_damaged_generation_row_is_found(
        self, open_cas: OpenCas, engine: Engine, universe: UUID
    ) -> None:
        await engine.commit(Batch(set={keys.cas_generation(universe): b"\x20"}))
        for call in (open_cas().generation(), open_cas().put(BODY, "raw"), open_cas().orphans(limit=1)):
            with pytest.raises(Corrupted) as caught:
                await call
            assert caught.value.code == "cas.generation_damaged"

    async def _outside(
        self, open_cas: OpenCas, engine: Engine, universe: UUID
    ) -> tuple[Cid, Chunked | Stored]:
        """Put a small object whose body is outside its row all the same."""
        cid = await open_cas(inline_max=0).put(BODY, "raw")
        stored = (await engine.read([keys.cas(universe, cid)]))[0]
        assert stored is not None
        place = decode_row(cid, stored).place
        assert not isinstance(place, Inline)
        return cid, place


def _is_same_object(cid: Cid, stored: bytes) -> bool:
    return decode_row(cid, stored).place == Inline(BODY)
