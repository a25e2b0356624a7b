from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import Rejected
from cellule.store.engine import Stamp
from cellule.store.tuples import INT_MAX, Position, pack, prefix_range, unpack


@pytest.mark.parametrize(
    "element", [None, 1.5, True, False, (1,), [b"a"], INT_MAX + 1, -INT_MAX - 1, "\ud800"]
)
def test_elements_that_keys_do_not_have_are_refused(element):
    with pytest.raises(Rejected) as caught:
        pack("fine", element)
    assert caught.value.code == "store.tuple_element"


@pytest.mark.parametrize("size", [0, 11, 13])
def test_stamps_of_another_length_are_refused(size):
    with pytest.raises(Rejected):
        pack(Position(Stamp(bytes(size))))


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"\x00", "unknown"),
        (b"\x03", "unknown"),
        (b"\x0b\x01", "unknown"),
        (b"\x1d\x01\x01", "unknown"),
        (b"\xff", "unknown"),
        (b"\x01", "no end"),
        (b"\x01abc", "no end"),
        (b"\x02abc\x00\xff", "no end"),
        (b"\x02\xff\x00", "not UTF-8"),
        (b"\x02\xed\xa0\x80\x00", "not UTF-8"),
        (b"\x15", "cut off"),
        (b"\x1c" + bytes(7), "cut off"),
        (b"\x30" + bytes(15), "cut off"),
        (b"\x33" + bytes(11), "cut off"),
        (b"\x15\x00", "longer than needed"),
        (b"\x16\x00\xff", "longer than needed"),
        (b"\x13\xff", "longer than needed"),
        (b"\x12\xff\x00", "longer than needed"),
    ],
)
def test_bytes_that_are_no_key_are_refused(key, reason):
    with pytest.raises(Rejected, match=reason) as caught:
        unpack(b"\x15\x07" + key)
    assert caught.value.code == "store.key_malformed"


def test_the_refusal_names_the_byte():
    with pytest.raises(Rejected, match="at byte 3 of key 0x02610003") as caught:
        unpack(b"\x02a\x00\x03")
    assert caught.value.fields["at"] == 3


def test_an_empty_key_is_an_empty_tuple():
    assert pack() == b""
    assert unpack(b"") == ()


def test_a_prefix_range_holds_the_tuples_that_continue_and_no_others():
    begin, end = prefix_range(pack("a"))
    inside = [("a",), ("a", b""), ("a", "\0"), ("a", -INT_MAX), ("a", UUID(int=(1 << 128) - 1))]
    outside = [("",), ("A",), ("a\0",), ("a\0b",), ("aa",), ("b",), (b"a",), (0,)]
    assert all(begin <= pack(*elements) < end for elements in inside)
    assert not any(begin <= pack(*elements) < end for elements in outside)
