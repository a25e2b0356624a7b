"""Encoding: what each value is written as, and what is refused, naming the fault and its place."""

from __future__ import annotations

import collections
import enum
import math
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

import msgspec
import pytest

from cellule.errors import InvariantBroken, Rejected
from cellule.values import (
    BYTES_MAX,
    DEPTH_MAX,
    Cid,
    Link,
    cid_of,
    decode,
    decode_linked,
    decode_trusted,
    encode,
    encode_linked,
)
from cellule.values.writer import write

CID = cid_of(b"target")
CID_LIKE = (1).to_bytes(4, "little")


class Level(enum.IntEnum):
    HIGH = 3


class Colour(enum.StrEnum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Loner(str):
    """A text that equals only itself, so a dict takes the same key twice."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Pair(NamedTuple):
    first: int
    second: str


class Record(msgspec.Struct):
    name: str


def nested(levels: int, kind: type = list) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value] if kind is list else {"k": value}
    return value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "f6"),
        (True, "f5"),
        (False, "f4"),
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (255, "18ff"),
        (256, "190100"),
        (65_535, "19ffff"),
        (65_536, "1a00010000"),
        (2**32 - 1, "1affffffff"),
        (2**32, "1b0000000100000000"),
        (2**64 - 1, "1bffffffffffffffff"),
        (-1, "20"),
        (-24, "37"),
        (-25, "3818"),
        (-(2**64), "3bffffffffffffffff"),
        (0.0, "fb0000000000000000"),
        (1.0, "fb3ff0000000000000"),
        (1.5, "fb3ff8000000000000"),
        (5e-324, "fb0000000000000001"),
        ("", "60"),
        ("ü", "62c3bc"),
        (b"", "40"),
        (b"\xff", "41ff"),
        ([], "80"),
        ([1, [2]], "82018102"),
        ((1, (2,)), "82018102"),
        ({}, "a0"),
        ({"bb": 1, "a": 2, "c": 3, "": 4}, "a4600461610261630362626201"),
        ({"é": 1, "z": 2, "zz": 3}, "a3617a02627a7a0362c3a901"),
        (Link(CID), "d82a582500" + CID.hex()),
        ({"l": [Link(CID)]}, "a1616c81d82a582500" + CID.hex()),
    ],
)
def test_a_value_is_written_in_its_one_canonical_form(value, written):
    assert encode(value).hex() == written
    assert write(value).hex() == written


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Level.HIGH, 3),
        (Colour.RED, "red"),
        (Text("x"), "x"),
        ({Text("x"): 1, Colour.RED: 2}, {"x": 1, "red": 2}),
        (collections.OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (type("Numbers", (list,), {})([1, 2]), [1, 2]),
        (type("Real", (float,), {})(1.5), 1.5),
        (type("Raw", (bytes,), {})(b"ab"), b"ab"),
        (Pair(1, "x"), [1, "x"]),
    ],
)
def test_a_subclass_is_written_as_its_base(value, plain):
    assert encode(value) == encode(plain)
    assert encode([value, Link(CID)]) == encode([plain, Link(CID)])
    assert write(value) == encode(plain)


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (math.nan, "values.float_not_finite", "$"),
        ({"a": [1, math.inf]}, "values.float_not_finite", "$.a[1]"),
        ([-math.inf], "values.float_not_finite", "$[0]"),
        (-0.0, "values.negative_zero", "$"),
        ({"items": [{"price": 0.0}, {"price": -0.0}]}, "values.negative_zero", "$.items[1].price"),
        ([Link(CID), -0.0], "values.negative_zero", "$[1]"),
        ([Level.HIGH, -0.0], "values.negative_zero", "$[1]"),
        (2**64, "values.int_range", "$"),
        ({"n": -(2**64) - 1}, "values.int_range", "$.n"),
        ([10**400], "values.int_range", "$[0]"),
        ({1: 2}, "values.key_not_text", "$"),
        ({"a": {None: 1}}, "values.key_not_text", "$.a"),
        ({"a": 1, b"b": 2}, "values.key_not_text", "$"),
        ({("a",): 1}, "values.key_not_text", "$"),
        ("\ud800", "values.text_surrogate", "$"),
        ({"x": {"\udfff": 1}}, "values.text_surrogate", "$.x"),
        ({"two words": ["\ud800"]}, "values.text_surrogate", '$["two words"][0]'),
        (bytearray(b"ab"), "values.type_unknown", "$"),
        ([memoryview(b"ab")], "values.type_unknown", "$[0]"),
        ({"s": {1, 2}}, "values.type_unknown", "$.s"),
        ([frozenset()], "values.type_unknown", "$[0]"),
        (Decimal(1), "values.type_unknown", "$"),
        (datetime.now(UTC), "values.type_unknown", "$"),
        (uuid.UUID(int=1), "values.type_unknown", "$"),
        (1j, "values.type_unknown", "$"),
        (object(), "values.type_unknown", "$"),
        (Record("x"), "values.type_unknown", "$"),
        (iter([]), "values.type_unknown", "$"),
        (CID, "values.bare_cid", "$"),
        ({"a": [CID]}, "values.bare_cid", "$.a[0]"),
        ([Link(CID), CID], "values.bare_cid", "$[1]"),
        (Link(Cid(b"short")), "values.bad_link", "$"),
        ([Link(Cid(CID_LIKE))], "values.bad_link", "$[0]"),
    ],
)
def test_what_is_no_value_is_refused_where_it_stands(value, code, path):
    for encoder in (encode, write):
        with pytest.raises(Rejected) as caught:
            encoder(value)
        assert (caught.value.code, caught.value.fields["path"]) == (code, path)
        assert path in str(caught.value)


def test_a_bare_cid_is_refused_with_the_hint_to_wrap_it():
    with pytest.raises(Rejected, match=r"bafk|bafy.*Wrap it: Link\(cid\)"):
        encode({"root": CID})


def test_keys_that_hide_their_equality_are_found_by_the_exact_writer_and_by_every_reader():
    value = {Loner("a"): 1, Loner("a"): 2}
    for refused in (lambda: write(value), lambda: decode(encode(value))):
        with pytest.raises(Rejected) as caught:
            refused()
        assert caught.value.code == "values.key_duplicate"


def test_an_error_about_a_huge_integer_does_not_print_it():
    with pytest.raises(Rejected) as caught:
        encode([1 << 100_000])
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("raw", [CID_LIKE, bytes(CID), CID_LIKE + b"more", b"\x12\x20" + bytes(32)])
def test_bytes_that_look_like_a_cid_stay_bytes(raw):
    for value in (raw, [raw, raw], {"a": raw, "l": Link(CID)}, [raw, b"\xd8\x2a", Link(CID)]):
        data = encode(value)
        assert data == write(value)
        assert decode(data) == value
        assert decode_trusted(data) == value


def test_the_same_bytes_as_link_and_as_bytes_stay_apart():
    value = [Link(CID), bytes(CID), Link(CID)]
    data = encode(value)
    assert data == write(value)
    assert decode(data) == value


def test_the_link_mark_by_chance_changes_nothing():
    value = {"a": b"\xd8\x2a", "b": encode([Link(CID)]), "n": 0xD82A}
    assert encode(value) == write(value)
    assert decode(encode(value)) == value


@pytest.mark.parametrize("kind", [list, dict])
def test_nesting_is_accepted_up_to_its_limit_and_refused_beyond(kind):
    deepest = nested(DEPTH_MAX, kind)
    assert decode(encode(deepest)) == deepest
    for levels in (DEPTH_MAX + 1, 500, 5_000):
        with pytest.raises(Rejected) as caught:
            encode(nested(levels, kind))
        assert caught.value.code == "values.too_deep"


def test_nesting_counts_tuples_subclasses_empty_lists_and_links():
    inner: object = []
    for _ in range(DEPTH_MAX - 1):
        inner = (inner,)
    assert encode(inner) == b"\x81" * (DEPTH_MAX - 1) + b"\x80"
    assert encode(nested(DEPTH_MAX) and [inner[0], Link(CID)])
    for deep in ((inner,), collections.OrderedDict(a=inner), [inner, Link(CID)]):
        with pytest.raises(Rejected) as caught:
            encode(deep)
        assert caught.value.code == "values.too_deep"


def test_many_containers_side_by_side_are_not_deep():
    value = [[{"n": [index, -0x60]}] for index in range(500)]
    assert decode(encode(value)) == value


def test_a_list_that_contains_itself_is_refused():
    loop: list[object] = []
    loop += [loop, loop]
    for value in (loop, [Link(CID), loop], (loop,)):
        with pytest.raises(Rejected) as caught:
            encode(value)
        assert caught.value.code == "values.too_deep"


def test_a_raised_recursion_limit_does_not_let_nesting_end_the_process():
    program = """if True:
        import sys
        from cellule.errors import Rejected
        from cellule.values import decode, encode, links_of
        sys.setrecursionlimit(10_000_000)
        loop = []
        loop.append(loop)
        link = bytes.fromhex("d82a58250001711220") + bytes(32)
        for call, given in ((encode, loop), (decode, b"\\x81" * 1_000_000 + b"\\x80"),
                            (links_of, b"\\x81" * 1_000_000 + link)):
            try:
                call(given)
            except Rejected as error:
                print(error.code)
        assert decode(encode({"a": [1, {"b": 2.5}]})) == {"a": [1, {"b": 2.5}]}
    """
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["values.too_deep"] * 3), ran.stderr


def test_a_value_over_the_size_limit_is_refused():
    assert len(encode(bytes(BYTES_MAX - 5))) == BYTES_MAX
    for value in (bytes(BYTES_MAX - 4), [bytes(BYTES_MAX), Link(CID)], ["x" * BYTES_MAX]):
        with pytest.raises(Rejected) as caught:
            encode(value)
        assert caught.value.code == "values.too_large"


def test_the_exact_writer_stops_at_the_size_limit_while_it_writes():
    doubled: object = bytes(100_000)
    for _ in range(100):
        doubled = (doubled, doubled)
    with pytest.raises(Rejected) as caught:
        write(doubled)
    assert caught.value.code == "values.too_large"


def test_a_long_path_is_shortened_in_the_message():
    with pytest.raises(Rejected) as caught:
        encode({"k" * 500: nested(100) and [[[[[[[[[[[[[[[[[[[[math.nan]]]]]]]]]]]]]]]]]]]]})
    assert "..." in caught.value.fields["path"]
    assert len(str(caught.value)) < 300


def test_a_node_given_links_as_cids_is_the_same_node():
    data = encode_linked([1, {"l": CID}, [CID, b"\xff"]])
    assert data == encode([1, {"l": Link(CID)}, [Link(CID), b"\xff"]])
    assert decode_linked(data) == [1, {"l": CID}, [CID, b"\xff"]]
    assert decode_trusted(data) == [1, {"l": Link(CID)}, [Link(CID), b"\xff"]]


def test_a_node_that_cannot_be_encoded_is_our_mistake():
    with pytest.raises(InvariantBroken) as caught:
        encode_linked([{1}])
    assert caught.value.code == "values.linked_node"
