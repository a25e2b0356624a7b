"""Frozen bytes of stored rows; a change here is a new format version (docs/formats/rows.md)."""

from __future__ import annotations

import pytest

from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.store.format import check_format
from cellule.store.rows import open_row, seal_counter, seal_row


@pytest.mark.parametrize(
    ("key", "value", "frozen"),
    [
        ("31323334", "3536373839", "3536373839" + "cbf43926"),
        ("026b657900", "", "e0241f0b"),
        ("026b657900", "76616c7565", "76616c7565" + "03e7333c"),
        ("026b657a00", "76616c7565", "76616c7565" + "320f29a1"),
        ("02666f726d617400", "a16776657273696f6e00", "a16776657273696f6e00" + "ab0bb1d5"),
    ],
)
def test_the_stored_form_of_a_value_is_frozen(key, value, frozen):
    assert seal_row(bytes.fromhex(key), bytes.fromhex(value)).hex() == frozen
    assert open_row(bytes.fromhex(key), bytes.fromhex(frozen)).hex() == value


@pytest.mark.parametrize(
    ("number", "frozen"),
    [
        (0, "0000000000000000"),
        (1, "0100000000000000"),
        (-1, "ffffffffffffffff"),
        (-(1 << 63), "0000000000000080"),
        ((1 << 63) - 1, "ffffffffffffff7f"),
    ],
)
def test_the_stored_form_of_a_counter_is_frozen(number, frozen):
    assert seal_counter(number).hex() == frozen
    assert open_row(b"\x01bell\0\x14", bytes.fromhex(frozen)).hex() == frozen


async def test_the_format_row_is_frozen():
    engine = MemoryEngine()
    await check_format(engine)
    assert {key.hex(): row.hex() for key, row in engine.disk.dump().items()} == {
        "02666f726d617400": "a16776657273696f6e00"
    }


async def test_stamps_are_ten_bytes_of_order_and_two_of_position():
    engine = MemoryEngine()
    stamps = await engine.commit(Batch(ordered=[(b"\x02q\0", b"")] * 258))
    assert stamps[257].hex() == "00000000000000000001" + "0101"
