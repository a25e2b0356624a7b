"""Frozen bytes of CAS rows, chunks, names and object files; a change here is a change of the format."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.cas.rows import Chunked, Inline, Row, Stored, encode_generation, encode_row, object_name
from cellule.store.engines.memory import MemoryEngine
from cellule.store.objects.local import LocalObjects
from cellule.values.cid import cid_of
from tests.support.memory_objects import MemoryObjects

UNIVERSE = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
BODY = bytes(range(16))
CID = cid_of(b"hello", codec="raw")


class Counting:
    """Chance that counts, so that body ids are the same in every run."""

    def bytes(self, count: int, /) -> bytes:
        return bytes(range(1, count + 1))


ROWS = [
    (Row(0, Inline(b"")), "820040"),
    (Row(7, Inline(b"hello")), "82074568656c6c6f"),
    (Row(300, Inline(b"hi")), "8219012c426869"),
    # Bytes that look like a CID stay bytes.
    (Row(0, Inline(bytes.fromhex("01000000"))), "82004401000000"),
    (
        Row(1, Chunked(BODY, 2, 65_537)),
        "8201a364626f647950000102030405060708090a0b0c0d0e0f6473697a651a00010001666368756e6b7302",
    ),
    (Row(1, Stored(BODY, 65_537)), "8201a264626f647950000102030405060708090a0b0c0d0e0f6473697a651a00010001"),
]


@pytest.mark.parametrize(("row", "frozen"), ROWS)
def test_rows(row, frozen):
    assert encode_row(row).hex() == frozen


@pytest.mark.parametrize(
    ("generation", "frozen"), [(0, "00"), (23, "17"), (24, "1818"), (4_294_967_295, "1affffffff")]
)
def test_generation_rows(generation, frozen):
    assert encode_generation(generation).hex() == frozen


def test_object_names():
    assert object_name(UNIVERSE, CID, BODY) == (
        "cas/01890a5d-ac96-774b-bcce-b302099a8057/"
        "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq/000102030405060708090a0b0c0d0e0f"
    )


async def test_everything_a_chunked_object_stores():
    data = bytes(70_000)
    async with MemoryEngine() as engine:
        cas = Cas(engine, UNIVERSE, entropy=Counting())
        await cas.advance_generation()
        cid = await cas.put(data, "raw")
        body = bytes.fromhex("000000010102030405060708090a0b0c")
        assert engine.disk.dump() == {
            keys.cas(UNIVERSE, cid): bytes.fromhex(
                "8201a364626f647950000000010102030405060708090a0b0c6473697a651a00011170666368756e6b7302"
            ),
            keys.cas_chunk(UNIVERSE, body, 0): bytes(cid),
            keys.cas_chunk(UNIVERSE, body, 1): data[:65_536],
            keys.cas_chunk(UNIVERSE, body, 2): data[65_536:],
            keys.cas_generation(UNIVERSE): b"\x01",
        }


async def test_everything_an_object_in_the_object_store_stores():
    data = bytes(20_000)
    objects = MemoryObjects()
    async with MemoryEngine() as engine, objects:
        cid = await Cas(engine, UNIVERSE, objects=objects, entropy=Counting()).put(data, "raw")
        name = f"cas/{UNIVERSE}/{cid}/000000000102030405060708090a0b0c"
        assert [item.name for item in (await objects.list("", limit=10)).items] == [name]
        assert await objects.get(name) == data
        assert engine.disk.dump() == {
            keys.cas(UNIVERSE, cid): bytes.fromhex(
                "8200a264626f647950000000000102030405060708090a0b0c6473697a65194e20"
            ),
            keys.cas_generation(UNIVERSE): b"\x00",
        }


async def test_everything_a_local_folder_holds(tmp_path):
    async with await LocalObjects.open(tmp_path / "objects") as store:
        await store.put("cas/u/cid/body", b"bytes")
    files = {
        path.relative_to(tmp_path / "objects").as_posix(): path for path in (tmp_path / "objects").rglob("*")
    }
    assert sorted(files) == [".drafts", "cas", "cas/u", "cas/u/cid~body", "cellule-objects"]
    assert files["cas/u/cid~body"].read_bytes() == b"bytes"
    assert files["cellule-objects"].read_bytes() == b"cellule objects 1\n"
