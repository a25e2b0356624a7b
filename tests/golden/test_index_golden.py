"""Frozen bytes and roots of indexes. A difference means that stored worlds can no longer be read."""

from __future__ import annotations

import pytest

from cellule.kernel.index import CELLS, LISTS, pair_key, pair_of, update
from cellule.kernel.need import Nodes, drive
from cellule.values.cbor import decode
from cellule.values.cid import cid_of
from cellule.values.link import Link


def index_of(entries, shape=CELLS):
    return drive(update(None, entries, Nodes(0), shape), Nodes(0), dict)


def timers(count):
    return {pair_key(number * 1_000, number): [number, "timer"] for number in range(1, count + 1)}


CHUNKS = {
    "one entry": ({b"a": 1}, "83008141618101"),
    "a state inline and a state linked": (
        {b"order-3": [[b"\xa1"], 1, 7], b"order-4": [Link(cid_of(b"state", "raw")), 2, 9]},
        (
            "830082476f726465722d33476f726465722d34"
            "82838141a1010783d82a582500015512204ba69735ca53765ed6a709edb56c6ea236b7193a3b29a6b390c346f0f4340e4e0209"
        ),
    ),
    "bytes that look like a link": (
        {b"\x01\x00\x00\x00": b"\x01\x00\x00\x00"},
        "8300814401000000814401000000",
    ),
    "two timers": (
        {pair_key(1, 2): "x", pair_key(3, 4): [5]},
        "830082500000000000000001000000000000000250000000000000000300000000000000048261788105",
    ),
}


@pytest.mark.parametrize("name", CHUNKS)
def test_the_bytes_of_small_chunks_are_frozen(name):
    entries, data = CHUNKS[name]
    assert [block.hex() for block in index_of(entries).blocks.values()] == [data]


def test_where_chunks_of_cells_end_is_frozen():
    made = index_of({b"cell-%02d" % number: [number, b"state"] for number in range(60)})
    assert str(made.root) == "bafyreibhm7572f7b4lmqypcdr4uhtzappxpx6gjciyhqnvob5t6lkfnupe"
    chunks = [decode(block) for block in made.blocks.values()]
    assert sorted(int(keys[-1][5:]) for level, keys, _ in chunks if level == 0) == [
        6,
        12,
        18,
        20,
        30,
        37,
        44,
        48,
        50,
        59,
    ]
    assert all(link.cid in made.blocks for level, _, links in chunks if level for link in links)


def test_where_chunks_of_lists_end_is_frozen():
    made = index_of(timers(300), LISTS)
    assert str(made.root) == "bafyreih6o6bm6ocguhzdf3djskaya2ycol52stzozrdxlkl3i24rfqpqba"
    level, keys, _ = decode(made.blocks[made.root])
    assert level == 1
    assert [pair_of(key)[1] for key in keys] == [40, 151, 154, 196, 277, 300]


def test_the_root_of_ten_thousand_cells_is_frozen():
    made = index_of({b"cell-%d" % number: [number, b"state"] for number in range(10_000)})
    assert str(made.root) == "bafyreib3sn65ennf4upi3v3s2l7kpog7z2erfuzbpngoh5iexul4c2cr64"
    assert decode(made.blocks[made.root])[0] == 3
    assert len(made.blocks) == 1_026


def test_the_root_of_fifty_thousand_timers_is_frozen():
    made = index_of(timers(50_000), LISTS)
    assert str(made.root) == "bafyreig4wq66735p42qum2v6fgkftpwtjzqtcjeiprugaj5o7afb4rpexy"
    assert decode(made.blocks[made.root])[0] == 3
    assert len(made.blocks) == 825
