"""Laws of canonical values: one value, one encoding; the fast paths and the exact reader and writer agree."""

from __future__ import annotations

import math

import cbor2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cellule.errors import CelluleError, Rejected
from cellule.values import (
    DEPTH_MAX,
    INT_MAX,
    INT_MIN,
    Cid,
    Link,
    Value,
    cid_of,
    decode,
    decode_trusted,
    encode,
    links_of,
)
from cellule.values.scanner import scan, scan_links
from cellule.values.writer import write

LINKS = st.builds(
    lambda data, codec: Link(cid_of(data, codec)), st.binary(max_size=1), st.sampled_from(["dag-cbor", "raw"])
)
# A busy machine is no failure.
unhurried = settings(deadline=None)
# Byte strings that libipld takes for CIDs, hold the link mark, or are encoded values themselves.
TRICKY = st.one_of(
    st.binary(max_size=16).map(lambda tail: b"\x01" + tail),
    st.binary(max_size=80).map(lambda tail: b"\x01\x71\x12\x20" + tail),
    LINKS.map(lambda link: bytes(link.cid)),
    LINKS.map(lambda link: encode([link])),
    st.binary(max_size=4).map(lambda tail: b"\xd8\x2a" + tail),
    st.sampled_from(
        [(1).to_bytes(4, "little"), b"\x12\x20" + bytes(32), b"\xd8\x2a\x45\x00\x01\x00\x00\x00"]
    ),
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: number != 0 or math.copysign(1, number) > 0
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
INTEGERS = st.one_of(
    st.integers(INT_MIN, INT_MAX),
    st.sampled_from(
        [edge + by for edge in (0, 24, 2**8, 2**16, 2**32, INT_MIN + 1, -24, -(2**8)) for by in (-1, 0, 1)]
    ),
)
SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXTS, st.binary(max_size=40), TRICKY)
VALUES = st.recursive(
    SCALARS | LINKS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=20,
)
# Anything a program might hand over by mistake.
STRANGE = st.recursive(
    st.one_of(
        SCALARS,
        LINKS,
        st.floats(),
        st.integers(),
        st.text(st.characters(), max_size=5),
        st.just(bytearray(b"x")),
        st.sampled_from(
            [Cid(b"junk"), cid_of(b"x"), Link(Cid(b"\x01\x00\x00\x00")), frozenset([1]), 1j, object]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(TEXTS | st.integers() | st.text(max_size=3), inner, max_size=4),
    ),
    max_leaves=12,
)


def typed(value: object) -> object:
    """A form in which 1, 1.0 and True differ, and so do 0.0 and -0.0, and maps ignore their order."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [typed(item) for item in value]
    return (type(value).__name__, repr(value))


def outcome(call, *args):
    """What a call gave, or how it refused."""
    try:
        return ("gave", typed(call(*args)))
    except CelluleError as error:
        return (type(error).__name__, error.code, error.fields.get("offset"), error.fields.get("path"))


def shuffled(value: Value, chance) -> Value:
    """The same value with every map filled in another order."""
    if isinstance(value, dict):
        entries = list(value.items())
        chance.shuffle(entries)
        return {key: shuffled(item, chance) for key, item in entries}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


@unhurried
@given(VALUES)
def test_what_was_encoded_is_decoded_the_same_by_every_reader(value):
    data = encode(value)
    for decoder in (decode, decode_trusted, scan):
        assert typed(decoder(data)) == typed(value)


@unhurried
@given(VALUES)
def test_the_fast_and_the_exact_writer_write_the_same_bytes(value):
    assert encode(value) == write(value)


@unhurried
@given(VALUES, st.randoms(use_true_random=False))
def test_the_bytes_do_not_depend_on_the_order_in_which_maps_were_filled(value, chance):
    assert encode(shuffled(value, chance)) == encode(value)


@unhurried
@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=10))
def test_an_independent_reader_reads_the_same(value):
    assert typed(cbor2.loads(encode(value))) == typed(value)


@unhurried
@given(VALUES)
def test_the_links_listed_are_those_of_the_value_in_document_order(value):
    found = []

    def visit(item):
        if isinstance(item, Link):
            found.append(item.cid)
        for child in item.values() if isinstance(item, dict) else item if isinstance(item, list) else ():
            visit(child)

    data = encode(value)
    visit(decode(data))
    assert links_of(data) == found == scan_links(data)


@unhurried
@given(STRANGE)
@example([-0.0, 0.0])
@example({"a": (Link(cid_of(b"")), -0.0)})
def test_both_writers_refuse_the_same_for_the_same_reason(value):
    assert outcome(encode, value) == outcome(write, value)


@unhurried
@given(STRANGE)
def test_whatever_is_encoded_is_canonical(value):
    try:
        data = encode(value)
    except Rejected:
        return
    assert encode(scan(data)) == data


@given(
    st.lists(st.sampled_from(["list", "map", "pair"]), min_size=DEPTH_MAX - 8, max_size=DEPTH_MAX + 8),
    SCALARS | LINKS,
)
@settings(deadline=None, max_examples=40)
def test_the_depth_limit_is_exact_for_every_mixture_of_containers(kinds, innermost):
    value: Value = innermost
    raw = write(innermost)
    for kind in kinds:
        value = [value] if kind == "list" else {"k": value} if kind == "map" else [[], value]
        raw = {"list": b"\x81", "map": b"\xa1\x61k", "pair": b"\x82\x80"}[kind] + raw
    if len(kinds) <= DEPTH_MAX - ("pair" in kinds[:1]):
        assert encode(value) == raw
        assert typed(decode(raw)) == typed(value)
    else:
        assert outcome(encode, value)[:2] == ("Rejected", "values.too_deep")
        assert outcome(decode, raw) == outcome(scan, raw)
        assert outcome(decode, raw)[:2] == ("Rejected", "values.too_deep")


@unhurried
@given(st.binary(max_size=60).map(lambda tail: b"\x01" + tail), VALUES)
def test_bytes_that_begin_like_a_cid_are_never_links(raw, value):
    data = encode([raw, value])
    assert decode(data)[0] == raw
    assert links_of(data) == links_of(encode([value]))
