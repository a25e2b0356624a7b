"""Decoding: every way in which bytes can fail to be canonical is refused, with what, which byte and where."""

from __future__ import annotations

import tracemalloc

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.values import (
    BYTES_MAX,
    DEPTH_MAX,
    Link,
    cid_of,
    decode,
    decode_linked,
    decode_trusted,
    encode,
    links_of,
)
from cellule.values.scanner import scan

CID = cid_of(b"target")
RAW = cid_of(b"blob", "raw")
LINK = "d82a582500" + CID.hex()
FOREIGN_CID = {
    "no_zero_byte": "d82a5824" + CID.hex(),
    "wrong_first_byte": "d82a582501" + CID.hex(),
    "empty": "d82a40",
    "only_zero": "d82a4100",
    "text": "d82a6100",
    "list": "d82a80",
    "version_0": "d82a5823001220" + "22" * 32,
    "version_2": "d82a58250002711220" + "11" * 32,
    "sha512": "d82a58450001711340" + "11" * 64,
    "identity": "d82a450001710000",
    "codec_dag_pb": "d82a58250001701220" + "11" * 32,
    "short": "d82a450001711220",
    "trailing": "d82a582600" + CID.hex() + "00",
}
REFUSED = {
    "nothing": ("", "truncated", 0, "$"),
    "integer of 1 byte, over-long": ("1817", "overlong", 0, "$"),
    "integer of 2 bytes, over-long": ("1900ff", "overlong", 0, "$"),
    "integer of 4 bytes, over-long": ("1a0000ffff", "overlong", 0, "$"),
    "integer of 8 bytes, over-long": ("1b00000000ffffffff", "overlong", 0, "$"),
    "negative integer, over-long": ("813817", "overlong", 1, "$[0]"),
    "length of bytes, over-long": ("580161", "overlong", 0, "$"),
    "length of text, over-long": ("780161", "overlong", 0, "$"),
    "length of list, over-long": ("980101", "overlong", 0, "$"),
    "length of map, over-long": ("b801616101", "overlong", 0, "$"),
    "length of key, over-long": ("a178016101", "overlong", 1, "$"),
    "tag, over-long": ("d9002a582500" + CID.hex(), "overlong", 0, "$"),
    "length of link, over-long": ("d82a59002500" + CID.hex(), "overlong", 2, "$"),
    "key twice": ("a2616101616102", "key_duplicate", 4, "$"),
    "keys unsorted": ("a2616201616101", "key_order", 4, "$"),
    "longer key first": ("a262616101616202", "key_order", 5, "$"),
    "unsorted inside": ("82a0a16178a2616201616101", "key_order", 9, "$[1].x"),
    "key is an integer": ("a10101", "key_not_text", 1, "$"),
    "key is bytes": ("a1416101", "key_not_text", 1, "$"),
    "key is null": ("a1f601", "key_not_text", 1, "$"),
    "key is a link": ("a1" + LINK + "01", "key_not_text", 1, "$"),
    "list without length": ("9f01ff", "indefinite_length", 0, "$"),
    "map without length": ("bf616101ff", "indefinite_length", 0, "$"),
    "bytes without length": ("5f4161ff", "indefinite_length", 0, "$"),
    "text without length": ("7f6161ff", "indefinite_length", 0, "$"),
    "a break": ("81ff", "indefinite_length", 1, "$[0]"),
    "reserved 28": ("1c", "reserved_head", 0, "$"),
    "reserved 30": ("815e", "reserved_head", 1, "$[0]"),
    "trailing byte": ("0100", "trailing_bytes", 1, "$"),
    "trailing junk": ("a0ffff", "trailing_bytes", 1, "$"),
    "half float": ("f93e00", "float_width", 0, "$"),
    "single float": ("a16178fa3fc00000", "float_width", 3, "$.x"),
    "NaN": ("fb7ff8000000000000", "float_not_finite", 0, "$"),
    "signalling NaN": ("fb7ff0000000000001", "float_not_finite", 0, "$"),
    "infinity": ("81fb7ff0000000000000", "float_not_finite", 1, "$[0]"),
    "minus infinity": ("fbfff0000000000000", "float_not_finite", 0, "$"),
    "-0.0": ("8201fb8000000000000000", "negative_zero", 2, "$[1]"),
    "undefined": ("f7", "simple_value", 0, "$"),
    "simple 0": ("e0", "simple_value", 0, "$"),
    "simple 255": ("f8ff", "simple_value", 0, "$"),
    "reserved simple": ("fc", "simple_value", 0, "$"),
    "tag 0": ("c06161", "unknown_tag", 0, "$"),
    "bignum": ("c249010000000000000000", "unknown_tag", 0, "$"),
    "shared reference": ("82d81c80d81d00", "unknown_tag", 1, "$[0]"),
    "regular expression": ("d8236161", "unknown_tag", 0, "$"),
    "not UTF-8": ("61ff", "bad_utf8", 1, "$"),
    "half character": ("63eda080", "bad_utf8", 1, "$"),
    "over-long UTF-8": ("62c080", "bad_utf8", 1, "$"),
    "not UTF-8 after text": ("8264616263ff01", "bad_utf8", 5, "$[0]"),
    "key not UTF-8": ("a161ff01", "bad_utf8", 2, "$"),
    "cut integer": ("1901", "truncated", 0, "$"),
    "cut float": ("fb3ff000", "truncated", 0, "$"),
    "cut bytes": ("4261", "truncated", 0, "$"),
    "cut list": ("8201", "truncated", 0, "$"),
    "cut map": ("a1616161", "truncated", 3, "$.a"),
    "cut link": ("d82a58250001", "truncated", 2, "$"),
    "tag without content": ("d82a", "truncated", 2, "$"),
    "list of 2^64-1": ("9bffffffffffffffff", "truncated", 0, "$"),
    "map of 2^64-1": ("bbffffffffffffffff", "truncated", 0, "$"),
    "bytes of 2^64-1": ("5bffffffffffffffff", "truncated", 0, "$"),
    "text of 2^64-1": ("7bffffffffffffffff", "truncated", 0, "$"),
    "list of 2^31-1": ("9a7fffffff", "truncated", 0, "$"),
    "bytes of 2^40": ("815b0000010000000000", "truncated", 1, "$[0]"),
    **{f"link: {name}": (given, "bad_link", 0, "$") for name, given in FOREIGN_CID.items()},
}


@pytest.mark.parametrize("name", REFUSED)
def test_bytes_that_are_not_canonical_are_refused_where_they_fail(name):
    given, code, offset, path = REFUSED[name]
    for decoder in (decode, scan):
        with pytest.raises(Rejected) as caught:
            decoder(bytes.fromhex(given))
        error = caught.value
        assert (error.code, error.fields["offset"], error.fields["path"]) == (f"values.{code}", offset, path)
        assert f"(at {path}, byte {offset})" in str(error)


@pytest.mark.parametrize("name", [name for name in REFUSED if name[:8] not in ("nothing", "trailing")])
def test_the_same_fault_beside_a_link_and_deep_inside_is_found_as_well(name):
    given, code, offset, path = REFUSED[name]
    before = bytes.fromhex("a1616182") + bytes.fromhex(LINK) + b"\x81"
    with pytest.raises(Rejected) as caught:
        decode(before + bytes.fromhex(given))
    error = caught.value
    assert (error.code, error.fields["offset"]) == (f"values.{code}", offset + len(before))
    assert error.fields["path"] == "$.a[1][0]" + path[1:]


def test_a_message_names_what_and_where_in_words():
    with pytest.raises(Rejected) as caught:
        decode(bytes.fromhex("a1656974656d7384010203a16570726963651817"))
    assert (
        str(caught.value) == "23 is written in 1 bytes where fewer would do (at $.items[3].price, byte 18)."
    )


@pytest.mark.parametrize("given", [bytearray(b"\x01"), memoryview(b"\x01"), "text", None, 1, bytearray(500)])
def test_only_bytes_are_decoded(given):
    with pytest.raises(Rejected) as caught:
        decode(given)
    assert caught.value.code == "values.not_bytes"


def test_input_over_the_size_limit_is_refused_unread():
    with pytest.raises(Rejected) as caught:
        decode(bytes(BYTES_MAX + 1))
    assert caught.value.code == "values.too_large"
    assert len(decode(encode(bytes(BYTES_MAX - 5)))) == BYTES_MAX - 5


@pytest.mark.parametrize("head", [b"\x81", b"\xa1\x61k", b"\x82\x01", b"\x82" + bytes.fromhex(LINK)])
def test_nesting_is_read_up_to_its_limit_and_refused_beyond(head):
    value = decode(head * DEPTH_MAX + b"\x01")
    for _ in range(DEPTH_MAX):
        value = value["k"] if isinstance(value, dict) else value[-1]
    assert value == 1
    for levels in (DEPTH_MAX + 1, 1_000, 2_000, 200_000 // len(head)):
        with pytest.raises(Rejected) as caught:
            decode(head * levels + b"\x01")
        assert caught.value.code == "values.too_deep"
        assert caught.value.fields["offset"] == DEPTH_MAX * len(head)


def test_empty_lists_and_maps_count_as_levels():
    assert decode(b"\x81" * (DEPTH_MAX - 1) + b"\x80")
    assert decode(b"\x81" * (DEPTH_MAX - 1) + b"\xa0")
    for innermost in (b"\x80", b"\xa0"):
        with pytest.raises(Rejected) as caught:
            decode(b"\x81" * DEPTH_MAX + innermost)
        assert caught.value.code == "values.too_deep"


@pytest.mark.parametrize(
    "given",
    [
        "9bffffffffffffffff",
        "9affffffff",
        "bbffffffffffffffff",
        "ba7fffffff",
        "5bffffffffffffffff",
        "7affffffff",
    ],
)
@pytest.mark.parametrize("decoder", [decode, decode_trusted, decode_linked, links_of, scan])
def test_a_huge_declared_length_reserves_no_memory(given, decoder):
    data = bytes.fromhex("82" + LINK + given) + bytes(1_000)
    tracemalloc.start()
    try:
        with pytest.raises((Rejected, Corrupted)):
            decoder(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_links_come_back_as_links_and_bytes_as_bytes():
    value = {"a": Link(CID), "b": bytes(CID), "c": [Link(RAW), b"\xd8\x2a", (1).to_bytes(4, "little")]}
    data = encode(value)
    for decoder in (decode, decode_trusted, scan):
        decoded = decoder(data)
        assert decoded == value
        assert type(decoded["a"]) is Link
        assert type(decoded["a"].cid).__name__ == "Cid"
        assert type(decoded["b"]) is bytes


def test_trusted_bytes_that_cannot_be_read_are_corrupted():
    for decoder in (decode_trusted, decode_linked):
        for given in ("", "81", "a10101", "9f01ff", "c101"):
            with pytest.raises(Corrupted) as caught:
                decoder(bytes.fromhex(given))
            assert caught.value.code.startswith("values.")
            assert "byte" in str(caught.value)


def test_trusted_bytes_with_a_foreign_link_are_corrupted():
    with pytest.raises(Corrupted) as caught:
        decode_trusted(bytes.fromhex(FOREIGN_CID["sha512"]))
    assert caught.value.code == "values.bad_link"


def test_links_are_listed_in_document_order_with_repetitions():
    data = encode({"b": Link(CID), "a": [Link(RAW), Link(CID)], "c": encode([Link(RAW)])})
    assert links_of(data) == [RAW, CID, CID]
    assert links_of(encode([1, "x"])) == []
    assert links_of(encode([b"\xd8\x2a", bytes(CID)])) == []


def test_links_of_bytes_that_cannot_be_read_are_refused():
    for given in (LINK + "00", "82" + LINK, "81d82a4100", "82" + LINK + "c101"):
        with pytest.raises(Rejected) as caught:
            links_of(bytes.fromhex(given))
        assert caught.value.code.startswith("values.")
    with pytest.raises(Rejected) as caught:
        links_of(bytes.fromhex(LINK) + bytes(BYTES_MAX))
    assert caught.value.code == "values.too_large"
