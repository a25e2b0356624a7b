"""Rows that are none are refused, whatever they hold."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted, InvariantBroken, Rejected
from cellule.store.cas.contract import CHUNK_BYTES, GENERATION_MAX
from cellule.store.cas.rows import decode_generation, decode_row, encode_generation, new_body
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
from cellule.values.cid import cid_of

CID = cid_of(b"any")
BODY = bytes(16)


@pytest.mark.parametrize(
    "value",
    [
        None, 1, b"", [], [1], [0, b"", 1], [-1, b""], [True, b""], [1.0, b""], ["0", b""],
        [GENERATION_MAX + 1, b""], [0, "text"], [0, {}], [0, {"body": BODY}], [0, {"size": 1}],
        [0, {"body": BODY, "size": 0}], [0, {"body": BODY[1:], "size": 1}],
        [0, {"body": "x" * 16, "size": 1}],
        [0, {"body": BODY, "size": 1, "more": 1}], [0, {"body": BODY, "chunks": 0, "size": 0}],
        [0, {"body": BODY, "chunks": 2, "size": CHUNK_BYTES}],
        [0, {"body": BODY, "chunks": 1, "size": CHUNK_BYTES + 1}],
        [0, {"body": BODY, "chunks": 1, "size": 1, "more": 1}],
    ],
)  # fmt: skip
def test_a_value_of_another_shape_is_no_row(value):
    with pytest.raises(Corrupted) as caught:
        decode_row(CID, encode(value))
    assert caught.value.code == "cas.row_damaged"
    assert str(CID) in str(caught.value)


@pytest.mark.parametrize("stored", [b"", b"\xff", b"\x82\x00", b"\x82\x18\x00\x40", b"\x82\x00\x40\x00"])
def test_bytes_that_are_not_canonical_are_no_row(stored):
    with pytest.raises(Corrupted) as caught:
        decode_row(CID, stored)
    assert caught.value.code == "cas.row_damaged"


@pytest.mark.parametrize(
    "stored", [b"", b"\x20", b"\xf5", b"\x41\x00", b"\x18\x01", encode(GENERATION_MAX + 1)]
)
def test_bytes_of_another_shape_are_no_generation(stored):
    with pytest.raises(Corrupted) as caught:
        decode_generation(stored)
    assert caught.value.code == "cas.generation_damaged"


def test_there_is_a_last_generation():
    assert decode_generation(encode_generation(GENERATION_MAX)) == GENERATION_MAX
    with pytest.raises(Rejected) as caught:
        encode_generation(GENERATION_MAX + 1)
    assert caught.value.code == "cas.generations_exhausted"
    with pytest.raises(InvariantBroken):
        new_body(GENERATION_MAX + 1, SeededEntropy(0))
