"""Frozen bytes and roots of both indexes. A difference means that stored worlds can no longer be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellule.kernel import index, ordered
from cellule.kernel.need import Nodes, drive
from cellule.kernel.ordered import pair_key
from cellule.values.cbor import decode
from cellule.values.cid import cid_of
from cellule.values.link import Link

WORDS = Path(__file__).parent / "index_words.json"


def index_of(entries):
    return drive(index.update(None, entries, Nodes(0)), Nodes(0), dict)


def ordered_of(entries):
    return drive(ordered.update(None, entries, Nodes(0)), Nodes(0), dict)


def test_the_fixture_of_the_ipld_specification_has_the_published_root_and_number_of_blocks():
    """Its alice-words fixture: sha2-256, bit width 5, buckets of 3; each word with its places in the text."""
    entries = {
        word.encode(): [
            {"line": line, "column": column} for line, column in zip(at[::2], at[1::2], strict=True)
        ]
        for word, at in json.loads(WORDS.read_text("utf-8")).items()
    }
    made = index_of(entries)
    assert str(made.root) == "bafyreic672jz6huur4c2yekd3uycswe2xfqhjlmtmm5dorb6yoytgflova"
    assert len(made.blocks) == 36


INDEX_NODES = {
    "one entry": (
        {b"a": 1},
        "bafyreidmc72ohwcxglph4xok5vz3mkfgen3sokixl2odk6prqwq3l2tpui",
        "a36468616d748244000000028181824161016768617368416c67126a6275636b657453697a6503",
    ),
    "a state inline and a state linked": (
        {b"order-1": [[b"\xa1"], 1, 7], b"order-2": [Link(cid_of(b"state", "raw")), 2, 9]},
        "bafyreih5tk5j5q5fud2u3vscak5zuuq4dlxlfbzonswbeo2ijufajix2su",
        (
            "a36468616d74824482000000828182476f726465722d31838141a101078182476f726465722d3283d82a582500015512204ba697"
            "35ca53765ed6a709edb56c6ea236b7193a3b29a6b390c346f0f4340e4e02096768617368416c67126a6275636b657453697a6503"
        ),
    ),
    "bytes that look like a link": (
        {b"\x01\x00\x00\x00": b"\x01\x00\x00\x00"},
        "bafyreiagpjhuq4eezx4kxhkqljo5jefq6xaclzwohjk5aro2e7capwh26e",
        "a36468616d74824400100000818182440100000044010000006768617368416c67126a6275636b657453697a6503",
    ),
}


@pytest.mark.parametrize("name", INDEX_NODES)
def test_the_bytes_of_small_index_roots_are_frozen(name):
    entries, root, data = INDEX_NODES[name]
    made = index_of(entries)
    assert {str(cid): block.hex() for cid, block in made.blocks.items()} == {root: data}


def test_a_child_node_is_frozen():
    made = index_of({b"cell-%d" % number: [number, b"state"] for number in range(40)})
    assert str(made.root) == "bafyreictpiaqepr6d7xwumk3etiolhzssvrpeubn7pmfhuwbf4b3ugt42y"
    blocks = {str(cid): block for cid, block in made.blocks.items()}
    assert len(blocks) == 3
    child = blocks["bafyreieiutpjlydzidvgiv3kbxcshcxvybmd6nxklvpuf6n7qna6kkqtyq"]
    assert decode(child) == [
        bytes.fromhex("10001014"),
        [[[b"cell-%d" % number, [number, b"state"]]] for number in (18, 12, 37, 30)],
    ]


def test_the_root_of_ten_thousand_cells_is_frozen():
    made = index_of({b"cell-%d" % number: [number, b"state"] for number in range(10_000)})
    assert str(made.root) == "bafyreic7g7kle4bo5ng22dpjp7v2pkdj64bitmpeprzgutewxqzpq7yri4"
    assert len(made.blocks) == 1_046


def test_the_bytes_of_a_small_chunk_are_frozen():
    made = ordered_of([(pair_key(1, 2), "x"), (pair_key(3, 4), [5])])
    assert {str(cid): block.hex() for cid, block in made.blocks.items()} == {
        "bafyreidwmyvkhnw2rzrjkxrj22y3iaojta5l3xi7qcmuqghdmu4jzcwkdu": "82008282500000000000000001"
        "000000000000000261788250000000000000000300000000000000048105"
    }


def test_where_chunks_end_is_frozen():
    made = ordered_of([(pair_key(number * 1_000, number), [number, "timer"]) for number in range(1, 301)])
    assert str(made.root) == "bafyreihmbo5euja635e4sxh4c5quu2l4kegifhomvdrm2jzkshlgirl274"
    level, entries = decode(made.blocks[made.root])
    assert level == 1
    lasts = [ordered.pair_of(key)[1] for key, _ in entries]
    assert lasts == [55, 59, 180, 198, 226, 274, 295, 300]
    assert all(link.cid in made.blocks for _, link in entries)


def test_the_root_of_fifty_thousand_timers_is_frozen():
    made = ordered_of([(pair_key(number * 1_000, number), [number, "timer"]) for number in range(1, 50_001)])
    assert str(made.root) == "bafyreicge6pt6f43b4cyhpha442ly7hw35yt2jzrby7wyej4ol5kuv42xe"
    assert decode(made.blocks[made.root])[0] == 2
    assert len(made.blocks) == 375
