"""What the fast paths assume of libipld, cbor2 and msgspec. A release that changes one of these needs a look.

The codec does not rest on these alone: the property tests hold it against the exact reader and writer.
"""

from __future__ import annotations

import math

import cbor2
import libipld
import msgspec
import pytest

from cellule.values import Link, cid_of

CID = cid_of(b"target")
LINK = bytes.fromhex("d82a582500") + CID
write, read = libipld.encode_dag_cbor, libipld.decode_dag_cbor


@pytest.mark.parametrize(
    "value", [Link(CID), (1,), math.nan, math.inf, 2**64, -(2**64) - 1, {1: 2}, "\ud800", {1}, bytearray(1)]
)
def test_libipld_refuses_to_write(value):
    with pytest.raises(ValueError, match="Failed to encode"):
        write([value])


def test_libipld_writes_minus_zero_as_zero():
    assert write(-0.0) == b"\xfb" + bytes(8)


@pytest.mark.parametrize("raw", [(1).to_bytes(4, "little"), bytes(CID), b"\x01\x71\x00\x02abmore"])
def test_libipld_writes_bytes_that_begin_like_a_cid_as_a_link(raw):
    assert write(raw)[:2] == b"\xd8\x2a"
    assert read(write(raw)) == raw


@pytest.mark.parametrize(
    "raw", [b"\x01", b"\x01\x00\x00", b"\x12\x20", b"\x00" + CID, b"\x02" + CID[1:], b"\x12\x21" * 17]
)
def test_libipld_leaves_other_bytes_alone(raw):
    assert write(raw)[0] >> 5 == 2


@pytest.mark.parametrize(
    "given", ["1817", "190001", "1a00000001", "1b0000000000000001", "580161", "780161", "980101"]
)
def test_libipld_reads_over_long_heads(given):
    assert write(read(bytes.fromhex(given))) != bytes.fromhex(given)


@pytest.mark.parametrize(
    "given",
    [
        *("a2616101616102", "a2616201616101", "9f01ff", "0101", "c101", "f7", "f93e00", "61ff", "a10101"),
        *("fb7ff8000000000000", "fb8000000000000000", "9bffffffffffffffff", "5bffffffffffffffff", "d82a4100"),
    ],
)
def test_libipld_refuses_to_read(given):
    with pytest.raises(ValueError, match="Failed to decode"):
        read(bytes.fromhex(given))


def test_libipld_is_bounded_by_the_recursion_limit_alone():
    assert write(read(b"\x81" * 500 + b"\x01")) == b"\x81" * 500 + b"\x01"
    with pytest.raises(RecursionError):
        read(b"\x81" * 100_000 + b"\x01")


def test_cbor2_gives_tags_to_the_hook_in_document_order():
    seen = []
    cbor2.loads(
        b"\x83" + LINK + b"\x81\xd8\x2a\x41a" + b"\xa1\x61k\xd8\x2a\x41b",
        tag_hook=lambda tag, _: seen.append(tag),
    )
    assert [(tag.tag, tag.value) for tag in seen] == [(42, b"\0" + CID), (42, b"a"), (42, b"b")]


def test_cbor2_and_libipld_read_alike_what_holds_no_link():
    data = write(
        {"a": [1, -1, 2**64 - 1, -(2**64)], "b": 1.5, "c": "ü", "d": b"\xff", "e": [None, True, False]}
    )
    assert cbor2.loads(data) == read(data)


def test_msgspec_keeps_the_sign_of_zero():
    assert b"\xcb\x80" + bytes(7) in msgspec.msgpack.encode({"a": [-0.0]})
    assert b"\xcb\x80" + bytes(7) not in msgspec.msgpack.encode({"a": [0.0]})
