"""Frozen bytes of every key; a change here is a new format version (docs/formats/keys.md)."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.store import keys
from cellule.store.engine import Stamp
from cellule.store.tuples import pack

U = UUID("00112233-4455-7677-8899-aabbccddeeff")
W = UUID("ffeeddcc-bbaa-7988-8766-554433221100")
UU = "00112233445576778899aabbccddeeff"
WW = "ffeeddccbbaa79888766554433221100"
CID = bytes.fromhex("01711220") + bytes(range(32))
CIDX = "01" + "0171122000ff" + bytes(range(1, 32)).hex() + "00"
BODY = bytes(range(16))
BODYX = "01" + "00ff" + bytes(range(1, 16)).hex() + "00"
NAMED = "01" + "0d6e4079e36703ebd37c00ff722f5891d2" + "00"  # the digest of "main"
STAMP = Stamp(bytes.fromhex("00000000000000010002ffff"))


def text(word):
    return f"02{word.encode().hex()}00"


@pytest.mark.parametrize(
    ("key", "frozen"),
    [
        (keys.format_version(), "02666f726d617400"),
        (keys.store_objects(), text("objects")),
        (keys.node_key(), text("node_key")),
        (keys.copy_underway(), text("copy")),
        (keys.store_owner(), text("owner")),
        (keys.probe(U), text("probe") + f"30{UU}"),
        (keys.universe_name("main"), "02756e6976657273657300" + "026d61696e00"),
        (keys.universe_named("main"), text("named") + NAMED),
        (keys.universe_count(), "01756e6976657273657300"),
        (keys.universe_meta(U), f"02750030{UU}" + "026d65746100"),
        (keys.ref_named(U, "main"), f"02750030{UU}" + text("named") + NAMED),
        (keys.world_gone(U, W), f"02750030{UU}" + text("gone") + f"30{WW}"),
        (keys.row_count("worlds", U), "01776f726c647300" + f"30{UU}"),
        (keys.row_count("pins", U), "0170696e7300" + f"30{UU}"),
        (keys.row_count("quotas", U), "0171756f74617300" + f"30{UU}"),
        (keys.row_count("holds", U, W), "01686f6c647300" + f"30{UU}30{WW}"),
        (keys.row_count("retention", U, W), "01726574656e74696f6e00" + f"30{UU}30{WW}"),
        (keys.universe_world(U, W), f"02750030{UU}" + "02776f726c647300" + f"30{WW}"),
        (keys.ref(U, "a\0b"), f"02750030{UU}" + "027265667300" + "026100ff6200"),
        (keys.erasure_key(U, b"\0"), f"02750030{UU}" + "026b65797300" + "0100ff00"),
        (keys.cas(U, CID), f"02750030{UU}" + "0263617300" + CIDX),
        (keys.cas_chunk(U, BODY, 256), f"02750030{UU}" + "026368756e6b7300" + BODYX + "160100"),
        (keys.cas_generation(U), f"02750030{UU}" + text("generation")),
        (keys.collection(U), f"02750030{UU}" + text("collection")),
        (keys.cas_mark(U, CID), f"02750030{UU}" + text("marks") + CIDX),
        (keys.cas_unread(U, CID), f"02750030{UU}" + text("unread") + CIDX),
        (keys.universe_quotas(U), f"02750030{UU}" + text("quotas")),
        (keys.universe_events(U, 255), "016576656e747300" + f"30{UU}" + "15ff"),
        (keys.pin(U, W), f"02750030{UU}" + text("pins") + f"30{WW}"),
        (keys.world_meta(U, W), f"02770030{UU}30{WW}" + "026d65746100"),
        (keys.world_epoch(U, W), f"02770030{UU}30{WW}" + "0265706f636800"),
        (keys.world_head(U, W), f"02770030{UU}30{WW}" + "026865616400"),
        (keys.world_desired(U, W), f"02770030{UU}30{WW}" + text("desired")),
        (keys.world_retention(U, W), f"02770030{UU}30{WW}" + text("retention")),
        (keys.history_hold(U, W, "a"), f"02770030{UU}30{WW}" + text("holds") + text("a")),
        (keys.world_baseline(U, W), f"02770030{UU}30{WW}" + text("baseline")),
        (keys.journal(U, W, 0), f"02770030{UU}30{WW}" + "026a6f75726e616c00" + "14"),
        (keys.journal(U, W, 255), f"02770030{UU}30{WW}" + "026a6f75726e616c00" + "15ff"),
        (
            keys.journal_part(U, W, 65_536, 1),
            f"02770030{UU}30{WW}" + "026a6f75726e616c00" + "17010000" + "1501",
        ),
        (keys.segment(U, W, 7), f"02770030{UU}30{WW}" + text("segments") + "1507"),
        (keys.snapshot(U, W, 7), f"02770030{UU}30{WW}" + text("snapshots") + "1507"),
        (keys.inbox(U, W, STAMP), f"02770030{UU}30{WW}" + "02696e626f7800" + "33" + STAMP.hex()),
        (keys.aside(U, W, STAMP), f"02770030{UU}30{WW}" + text("aside") + "33" + STAMP.hex()),
        (keys.world_trouble(U, W), f"02770030{UU}30{WW}" + text("trouble")),
        (keys.effect(63, -2, 10**18, CID), text("effects") + "153f" + "13fd" + "1c0de0b6b3a7640000" + CIDX),
        (keys.effect_at(CID), text("effects") + "02617400" + CIDX),
        (keys.effect_cancel(CID), text("effects") + "0263616e63656c00" + CIDX),
        (keys.wake(5, 1, U, W), "0277616b6500" + "1505" + "1501" + f"30{UU}30{WW}"),
        (keys.ready(5, U, W), "02726561647900" + "1505" + f"30{UU}30{WW}"),
        (keys.bell(0), "0162656c6c00" + "14"),
        (keys.session(U), "0273657373696f6e00" + f"30{UU}"),
        (keys.store_owner(), "026f776e657200"),
    ],
)
def test_the_bytes_of_each_key_are_frozen(key, frozen):
    assert key.hex() == frozen


@pytest.mark.parametrize(
    ("element", "frozen"),
    [
        (b"foo\0bar", "01666f6f00ff62617200"),
        ("F\u00d4O\0bar", "0246c3944f00ff62617200"),
        (0, "14"),
        (1, "1501"),
        (-1, "13fe"),
        (-255, "1300"),
        (-256, "12feff"),
        (-5_551_212, "11ab4b93"),
        ((1 << 64) - 1, "1c" + "ff" * 8),
        (1 - (1 << 64), "0c" + "00" * 8),
    ],
)
def test_elements_are_packed_as_by_the_tuple_layer_of_foundationdb(element, frozen):
    assert pack(element).hex() == frozen


def test_shards_are_frozen():
    assert [keys.shard_of(world) for world in (U, W, UUID(int=0))] == [58, 29, 55]
