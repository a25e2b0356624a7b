"""CIDs and links: the one binary and the one text spelling, and what is refused."""

from __future__ import annotations

import copy
import hashlib
import pickle

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.values import Cid, Link, check_cid, cid_of

EMPTY_MAP = "bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua"
EMPTY_BLOB = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"


def test_the_cid_of_known_bytes_is_the_known_cid():
    assert str(cid_of(b"\xa0")) == EMPTY_MAP
    assert str(cid_of(b"", "raw")) == EMPTY_BLOB


def test_a_cid_is_36_bytes_that_tell_codec_and_digest():
    node, blob = cid_of(b"x"), cid_of(b"x", "raw")
    assert (len(node), node.codec, node[:4].hex()) == (36, "dag-cbor", "01711220")
    assert (len(blob), blob.codec, blob[:4].hex()) == (36, "raw", "01551220")
    assert node.digest == blob.digest == hashlib.sha256(b"x").digest()


def test_a_cid_is_the_same_key_as_its_bytes():
    cid = cid_of(b"x")
    assert {bytes(cid): 1}[cid] == 1
    assert sorted([cid, b"\x00"]) == [b"\x00", cid]


def test_text_and_bytes_lead_back_to_the_same_cid():
    for cid in (cid_of(b"x"), cid_of(b"x", "raw")):
        for again in (
            Cid.parse(str(cid)),
            Cid.of_bytes(bytes(cid)),
            pickle.loads(pickle.dumps(cid)),
            copy.deepcopy(cid),
        ):
            assert again == cid
            assert type(again) is Cid
    assert repr(cid_of(b"\xa0")) == f"Cid('{EMPTY_MAP}')"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        EMPTY_MAP[1:],
        EMPTY_MAP.upper(),
        "b" + EMPTY_MAP[1:].upper(),
        EMPTY_MAP + "=",
        EMPTY_MAP[:-1],
        EMPTY_MAP[:-1] + "b",
        EMPTY_MAP[:-1] + "1",
        "z" + EMPTY_MAP[1:],
        "QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n",
        "bafybeihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
        "ü" * 59,
        "b" + "a" * 58,
    ],
)
def test_text_that_is_not_the_one_spelling_of_a_cid_is_refused(text):
    with pytest.raises(Rejected) as caught:
        Cid.parse(text)
    assert caught.value.code == "values.cid_malformed"


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", "version 1"),
        (b"\x01\x71\x12\x20" + bytes(31), "35 bytes"),
        (b"\x01\x71\x12\x20" + bytes(33), "37 bytes"),
        (b"\x12\x20" + bytes(32), "CIDv0"),
        (b"\x01\x70\x12\x20" + bytes(32), "codec"),
        (b"\x01\x71\x13\x40" + bytes(64), "sha2-256"),
        (b"\x02\x71\x12\x20" + bytes(32), "version 1"),
    ],
)
def test_bytes_that_are_no_cid_are_refused_with_the_reason(raw, fault):
    with pytest.raises(Rejected, match=fault) as caught:
        Cid.of_bytes(raw)
    assert caught.value.code == "values.cid_malformed"


def test_an_unchecked_cid_still_prints():
    assert str(Cid(b"junk")) == "6a756e6b"
    assert repr(Cid(b"junk")) == "Cid('6a756e6b')"


def test_bytes_are_checked_against_their_cid():
    check_cid(cid_of(b"data"), b"data")
    check_cid(cid_of(b"data", "raw"), b"data")
    for cid, data in (
        (cid_of(b"data"), b"datA"),
        (Cid(b"\x01\x70\x12\x20" + cid_of(b"data").digest), b"data"),
    ):
        with pytest.raises(Corrupted) as caught:
            check_cid(cid, data)
        assert caught.value.code == "values.cid_mismatch"
        assert str(cid) in str(caught.value)


def test_a_link_is_frozen_hashable_and_ordered_by_its_bytes():
    first, second = sorted([cid_of(b"1"), cid_of(b"2")])
    assert Link(first) == Link(Cid(first))
    assert len({Link(first), Link(first), Link(second)}) == 2
    assert Link(first) < Link(second)
    assert Link(first) <= Link(first)
    assert Link(second) > Link(first)
    assert Link(second) >= Link(second)
    with pytest.raises(AttributeError):
        Link(first).cid = second
    assert pickle.loads(pickle.dumps(Link(first))) == Link(first)
    assert repr(Link(first)) == f"Link(Cid('{first}'))"


def test_a_link_equals_and_orders_with_links_only():
    link = Link(cid_of(b"1"))
    assert link != link.cid
    assert link != bytes(link.cid)
    for compare in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__"):
        assert getattr(link, compare)(link.cid) is NotImplemented


@pytest.mark.parametrize("target", [b"x", EMPTY_MAP, None, Link(cid_of(b"x"))])
def test_a_link_takes_a_cid_only(target):
    with pytest.raises(Rejected) as caught:
        Link(target)
    assert caught.value.code == "values.link_target"
