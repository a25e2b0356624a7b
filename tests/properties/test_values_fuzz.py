"""Any bytes at all: only Cellule errors, and the fast reader accepts exactly what the exact one accepts."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.values import (
    Cid,
    Link,
    ModuleName,
    Name,
    check_envelope,
    cid_of,
    decode,
    decode_linked,
    decode_trusted,
    encode,
    links_of,
    open_envelope,
    seal,
)
from cellule.values.scanner import scan

CIDS = st.builds(cid_of, st.binary(max_size=1), st.sampled_from(["dag-cbor", "raw"]))
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**64), 2**64 - 1),
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
        st.binary(max_size=8),
        CIDS.map(Link),
        CIDS.map(bytes),
        st.binary(max_size=12).map(lambda tail: b"\x01" + tail),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)
HEADS = bytes.fromhex("00 17 18 20 38 40 41 44 60 61 62 80 81 82 9f a0 a1 a2 bf c0 d8 f4 f6 f7 f9 fa fb ff")
FRAGMENTS = [
    *("d82a", "d9002a", "000000", "4401000000", "fb0000000000000000", "fb8000000000000000", "6161", "6162"),
    *("9bffffffffffffffff", "d82a582500" + cid_of(b"").hex(), "5824" + cid_of(b"").hex()),
]
# Heads and fragments in any order: far closer to the format than plain random bytes.
PIECES = [bytes([head]) for head in HEADS] + [bytes.fromhex(fragment) for fragment in FRAGMENTS]
TOKENS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
unhurried = settings(deadline=None)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An encoded value after a few edits: bytes changed, put in, taken out, cut off or doubled."""
    data = bytearray(encode(draw(VALUES)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        edit = draw(st.sampled_from(["change", "insert", "remove", "cut", "double"]))
        if edit == "change" and at < len(data):
            data[at] = draw(
                st.integers(0, 255) | st.sampled_from([0x18, 0x58, 0x78, 0x98, 0xB8, 0xD8, 0xFA, 0xFB])
            )
        elif edit == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=3))
        elif edit == "remove":
            del data[at : at + draw(st.integers(1, 3))]
        elif edit == "cut":
            del data[at:]
        elif edit == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 40))]
    return bytes(data)


ANY_BYTES = st.one_of(st.binary(max_size=200), TOKENS, damaged(), VALUES.map(encode))


def typed(value: object) -> object:
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return [typed(item) for item in value] if isinstance(value, list) else (type(value).__name__, repr(value))


def attempt(call, *args):
    """Call, and return what it gave and the error it raised: one of them is `None`."""
    try:
        return call(*args), None
    except CelluleError as error:
        return None, error


@unhurried
@given(ANY_BYTES)
def test_decode_and_the_exact_reader_accept_and_refuse_alike(data):
    (exact, fault), (value, error) = attempt(scan, data), attempt(decode, data)
    if fault is not None:
        assert (type(error), error.code, error.fields) == (Rejected, fault.code, fault.fields)
        assert f"byte {fault.fields['offset']}" in str(error)
        return
    assert error is None
    assert typed(value) == typed(exact)
    assert encode(value) == data


@unhurried
@given(ANY_BYTES)
def test_trusted_decoding_gives_a_value_or_says_that_it_is_corrupted(data):
    for decoder in (decode_trusted, decode_linked):
        _, error = attempt(decoder, data)
        assert error is None or (type(error) is Corrupted and error.code.startswith("values."))


@unhurried
@given(ANY_BYTES)
def test_trusted_decoding_agrees_with_decode_wherever_decode_accepts(data):
    value, error = attempt(decode, data)
    assume(error is None)
    assert typed(decode_trusted(data)) == typed(value)


@unhurried
@given(ANY_BYTES)
def test_links_of_any_bytes_are_cids_or_the_bytes_are_refused(data):
    links, error = attempt(links_of, data)
    assert error is not None or [Cid.of_bytes(link) for link in links] == links
    assert error is None or type(error) is Rejected


@unhurried
@given(
    ANY_BYTES
    | st.tuples(VALUES.map(encode), st.booleans()).map(lambda pair: encode(seal(pair[0])) + b"x" * pair[1])
)
def test_an_envelope_read_from_any_bytes_is_well_formed_or_refused(data):
    def opened():
        envelope = open_envelope(decode(data))
        check_envelope(envelope)
        return envelope

    envelope, error = attempt(opened)
    assert error is None or (type(error) is Rejected and error.code.startswith("values."))
    assert error is not None or encode(seal(envelope.data)) == data


@unhurried
@given(VALUES)
def test_an_enveloped_value_is_opened_the_same(value):
    envelope = open_envelope(decode(encode(seal(encode(value)))))
    check_envelope(envelope)
    assert envelope.data == encode(value)
    assert list(envelope.links) == sorted(set(links_of(encode(value))))


@unhurried
@given(st.text(max_size=70) | st.text("bafyreiqu234567=", max_size=62) | CIDS.map(str))
def test_any_text_is_a_cid_in_its_one_spelling_or_refused(text):
    cid, error = attempt(Cid.parse, text)
    assert str(cid) == text if error is None else error.code == "values.cid_malformed"


@unhurried
@given(
    st.text(max_size=30)
    | st.from_regex(r"[a-zA-Z.\-_0-9]{1,9}/[a-zA-Z.\-_0-9]{1,9}@?[0-9]{0,11}", fullmatch=True)
)
def test_any_text_is_a_name_in_its_one_spelling_or_refused(text):
    for kind in (Name, ModuleName):
        name, error = attempt(kind.parse, text)
        assert str(name) == text if error is None else error.code.startswith("names.")
