"""The rows a host writes beside frames, frozen: `docs/formats/store-rows.md` draws them."""

from __future__ import annotations

from uuid import UUID

from cellule.host.inbox.item_rows import control_row, event_row, signal_row
from cellule.host.journal import Head, frame_rows
from cellule.host.own.directory import baseline_of, baseline_row
from cellule.host.own.origin import Origin
from cellule.host.segments import Segment, read_segment, segment_bytes
from cellule.host.trouble import Trouble
from cellule.kernel.items import ControlItem, EventItem, SignalItem
from cellule.kernel.lineage import Ancestor
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link

UNIVERSE, WORLD = UUID(int=1), UUID(int=2)


def test_heads():
    first = Head(0, 0, None)
    later = Head(300, 7, bytes(range(32)), 1_700_000_000_000_000_000)
    assert first.row().hex() == "a46462656174006477616b65f6656672616d65f66668656967687400"
    assert later.row().hex() == (
        "a46462656174076477616b651b17979cfe362a0000656672616d655820"
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f6668656967687419012c"
    )
    assert [Head.of_row(head.row()) for head in (first, later)] == [first, later]


def test_baselines():
    cid = cid_of(encode({}))
    row = baseline_row(12, cid)
    assert row.hex() == f"a2666865696768740c68736e617073686f745824{bytes(cid).hex()}"
    assert baseline_of(row) == (12, cid)


def test_a_long_frame_is_cut_into_parts_that_follow_their_first():
    frame = bytes(range(256)) * 600
    rows = frame_rows(UNIVERSE, WORLD, 9, frame)
    assert [key.hex()[-4:] for key in rows] == ["1509", "1501", "1502"]
    assert list(rows) == sorted(rows)
    assert [len(part) for part in rows.values()] == [65_536, 65_536, 22_528]
    assert b"".join(rows.values()) == frame
    assert list(frame_rows(UNIVERSE, WORLD, 9, b"short").items()) == [
        (keys.journal(UNIVERSE, WORLD, 9), b"short")
    ]


async def test_inbox_items():
    cas = Cas(MemoryEngine(MemoryDisk()), UNIVERSE)
    short = EventItem("a/B@1", b"\xa0", None, "one", explicit=True, issued_ns=5)
    whole = EventItem(
        "a/B@1", b"\xa0", b"k", UUID(int=3), explicit=True, issued_ns=5, expected_version=0, correlation="c"
    )
    assert encode(await event_row(short, cas)).hex() == (
        "a5626964636f6e65646b696e64656576656e746576616c75658141a066736368656d6165612f42403169"
        "6973737565645f6e7305"
    )
    assert encode(await event_row(whole, cas)).hex() == (
        "a86269645000000000000000000000000000000003636b6579416b646b696e64656576656e746576616c75658141a0"
        "66736368656d6165612f4240316865787065637465640069697373"
        "7565645f6e73056b636f7272656c6174696f6e6163"
    )
    control = control_row(ControlItem("pause", "ops", "tea", {"n": 1}, id=b"\x07" * 16))
    assert encode(control).hex() == (
        "a662696450070707070707070707070707070707076377686f636f70736377687963746561646b696e6467"
        "636f6e74726f6c6476657262657061757365"
        "69617267756d656e7473a1616e01"
    )


async def test_a_signal_in_the_inbox():
    cas = Cas(MemoryEngine(MemoryDisk()), UNIVERSE)
    short = SignalItem("/a", id="one", explicit=True)
    whole = SignalItem("/a", "/b/c", b"\xa0", 9, UUID(int=3), explicit=True)
    assert (
        encode(await signal_row(short, cas)).hex()
        == "a3626964636f6e65646b696e64667369676e616c667369676e616c622f61"
    )
    assert encode(await signal_row(whole, cas)).hex() == (
        "a66269645000000000000000000000000000000003646265617409646b696e64667369676e616c667369676e61"
        "6c622f6166746172676574642f622f63677061796c6f61648141a0"
    )


async def test_a_long_value_travels_as_a_link():
    cas = Cas(MemoryEngine(MemoryDisk()), UNIVERSE)
    value = encode("x" * 40_000)
    row = await event_row(EventItem("a/B@1", value, None, "one", explicit=True), cas)
    assert row["value"] == Link(cid_of(value))
    assert await cas.get(cid_of(value)) == value


def test_a_segment_of_the_journal():
    cid = cid_of(b"frames", "raw")
    kept, dropped = Segment(1, 300, 4_000, cid), Segment(1, 9)
    assert kept.row().hex() == (
        f"a4646c61737419012c656279746573190fa065666972737401677365676d656e74d82a582500{bytes(cid).hex()}"
    )
    assert dropped.row().hex() == "a2646c6173740965666972737401"
    assert [Segment.of_row(each.row()) for each in (kept, dropped)] == [kept, dropped]
    block = segment_bytes([(2, b"one"), (300, b"three")])
    assert block.hex() == ("43454c4c534547300000000000000002000000036f6e65000000000000012c000000057468726565")
    assert list(read_segment(block)) == [(2, b"one"), (300, b"three")]


def test_where_a_world_was_forked():
    origin = Origin((Ancestor(UUID(int=3), 7), Ancestor(UUID(int=4), 9)), 5, bytes(32))
    assert encode(origin.row()).hex() == (
        "a76377686f606377687960646265617405646c697665f4656672616d655820"
        + "00" * 32
        + "67656666656374736464726f70676c696e65616765"
        + "8282500000000000000000000000000000000307825000000000000000000000000000000004"
        + "09"
    )
    assert Origin.of_row(origin.row()) == origin


def test_what_an_owner_cannot_do_for_now():
    assert Trouble(1, 2, "no room").row().hex() == (
        "a463776879676e6f20726f6f6d647768617468736e617073686f7468617474656d707473026873696e63655f6e7301"
    )
