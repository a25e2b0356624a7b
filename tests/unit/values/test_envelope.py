"""The stored-value envelope: its two shapes, and every other shape refused."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.values import Envelope, Link, check_envelope, cid_of, decode, encode, open_envelope, seal

FIRST, SECOND = sorted([cid_of(b"1"), cid_of(b"2", "raw")])
PLAIN = encode({"n": 1})
LINKED = encode([Link(SECOND), Link(FIRST), Link(SECOND)])


def test_a_value_without_links_is_kept_as_its_bytes_alone():
    assert seal(PLAIN) == [PLAIN]
    assert open_envelope([PLAIN]) == Envelope(PLAIN)


def test_a_value_with_links_lists_each_once_and_sorted():
    sealed = seal(LINKED)
    assert sealed == [LINKED, [Link(FIRST), Link(SECOND)]]
    assert open_envelope(decode(encode(sealed))) == Envelope(LINKED, (FIRST, SECOND))


def test_a_value_that_only_looks_as_if_it_held_links_lists_none():
    data = encode([b"\xd8\x2a", LINKED])
    assert seal(data) == [data]


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (None, "values.envelope_shape"),
        ({"data": b""}, "values.envelope_shape"),
        (b"bytes", "values.envelope_shape"),
        ([], "values.envelope_shape"),
        ([b"", [], b"key"], "values.envelope_shape"),
        (["text"], "values.envelope_shape"),
        ([Link(FIRST)], "values.envelope_shape"),
        ([b"", []], "values.envelope_links"),
        ([b"", None], "values.envelope_links"),
        ([b"", [bytes(FIRST)]], "values.envelope_links"),
        ([b"", [Link(SECOND), Link(FIRST)]], "values.envelope_links"),
        ([b"", [Link(FIRST), Link(FIRST)]], "values.envelope_links"),
    ],
)
def test_another_shape_is_refused(envelope, code):
    with pytest.raises(Rejected) as caught:
        open_envelope(envelope)
    assert caught.value.code == code


def test_links_that_are_not_those_of_the_bytes_are_found():
    for envelope in (Envelope(PLAIN), Envelope(LINKED, (FIRST, SECOND))):
        check_envelope(envelope)
    for envelope in (Envelope(LINKED), Envelope(PLAIN, (FIRST,)), Envelope(encode(Link(FIRST)), (SECOND,))):
        with pytest.raises(Rejected) as caught:
            check_envelope(envelope)
        assert caught.value.code == "values.envelope_links"
