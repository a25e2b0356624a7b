"""The rows of the outbox and the receipts of an inbox, frozen: `docs/formats/outbox.md` draws them."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import Corrupted
from cellule.host.outbox.receipts import Receipt, read_receipt, receipt_item
from cellule.host.outbox.rows import (
    Row,
    closing_rows,
    intent_of,
    marker_ids,
    marker_range,
    opening_rows,
    place_range,
    read_row,
    rows_range,
    shard_range,
    store_row,
)
from cellule.host.outbox.signatures import NodeKey
from cellule.kernel.items import Opening
from cellule.store import keys
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link

UNIVERSE, WORLD = UUID(int=1), UUID(int=2)
INTENT = bytes(range(32))
OPENING = Opening(
    INTENT, 7, "bank.charge", b"\xa0", "order-1", 5, 10_000_000_000, 3, None, "shop/Order", b"o1", 4
)
GRANT = {"effects": ["bank.charge"], "name": "bank"}
KEY = NodeKey(bytes(range(32)))


def test_a_fresh_row():
    opened = opening_rows(UNIVERSE, WORLD, [OPENING], 1_700_000_000_000_000_000)
    [stored] = opened.stored
    assert stored.at.hex() == ROW_KEY
    assert stored.value.hex() == FRESH
    assert dict(opened.set) == {stored.at: stored.value, keys.effect_at(INTENT): stored.at}
    assert opened.blocks == {}
    assert read_row(stored.at, stored.value) == stored


def test_a_row_with_everything():
    row = opening_rows(UNIVERSE, WORLD, [OPENING], 5).stored[0].row
    row = row._replace(
        params=Link(cid_of(b"\xa0")), grant=GRANT, tried=2, delay_ns=700_000_000, error="the bank is closed"
    )
    stored = store_row(row)
    assert stored.value.hex() == WHOLE
    assert read_row(stored.at, stored.value) == stored


def test_params_with_links_show_them():
    linked = encode({"blob": Link(cid_of(b"x", "raw"))})
    [stored] = opening_rows(UNIVERSE, WORLD, [OPENING._replace(params=linked)], 5).stored
    assert decode(stored.value)["intent"]["params"] == [linked, [Link(cid_of(b"x", "raw"))]]
    assert read_row(stored.at, stored.value).row.params == linked


def test_long_params_are_a_block_beside_the_row():
    long = encode("x" * 32_000)
    opened = opening_rows(UNIVERSE, WORLD, [OPENING._replace(params=long)], 5)
    assert opened.blocks == {cid_of(long): long}
    assert decode(opened.stored[0].value)["intent"]["params"] == Link(cid_of(long))


def test_markers():
    [(key, value)] = closing_rows(UNIVERSE, WORLD, [INTENT]).items()
    assert key.hex() == MARKER_KEY
    assert value == UNIVERSE.bytes + WORLD.bytes
    assert marker_ids(value) == (UNIVERSE, WORLD)
    assert marker_ids(b"?") is None
    assert intent_of(key) == INTENT


def test_ranges_hold_what_they_should():
    for shard in range(keys.SHARDS):
        for priority in (0, 9):
            for ready_ns in (0, 1, (1 << 64) - 1):
                at = keys.effect(shard, priority, ready_ns, b"\xff" * 32)
                assert rows_range()[0] <= at < rows_range()[1]
                assert shard_range(shard)[0] <= at < shard_range(shard)[1]
                assert shard == 0 or not shard_range(shard - 1)[0] <= at < shard_range(shard - 1)[1]
    for intent in (bytes(32), b"\xff" * 32):
        place, marker = keys.effect_at(intent), keys.effect_cancel(intent)
        assert place_range()[0] <= place < place_range()[1]
        assert marker_range()[0] <= marker < marker_range()[1]
        for key in (place, marker):
            assert not rows_range()[0] <= key < rows_range()[1]


def changed(path, value):
    stored = opening_rows(UNIVERSE, WORLD, [OPENING], 5).stored[0]
    row = decode(stored.value)
    at, *rest = path
    target = row if not rest else row[at]
    name = rest[0] if rest else at
    if value is None:
        del target[name]
    else:
        target[name] = value
    return stored.at, encode(row)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("universe",), None), (("world",), b"short"), (("world",), UUID(int=3).bytes), (("more",), 1),
        (("intent", "height"), None), (("intent", "height"), -1), (("intent", "height"), "7"),
        (("intent", "params"), b"\xa0"), (("intent", "params"), [b"\xa0", [], b"key"]),
        (("intent", "params"), [1]), (("intent", "kind"), 5), (("intent", "cell"), "o1"),
        (("intent", "grant"), []), (("intent", "error"), 5), (("intent", "tried"), True),
        (("intent", "more"), 1), (("intent", "params"), [encode({"a": Link(cid_of(b""))})]),
    ],
)  # fmt: skip
def test_other_rows_are_refused(path, value):
    with pytest.raises(Corrupted) as caught:
        read_row(*changed(path, value))
    assert caught.value.code == "effects.pool_row"


@pytest.mark.parametrize(
    "value", [b"", b"\xa0", b"\x80", b"\xa1", encode(5), encode({"universe": b"x" * 16})]
)
def test_bytes_that_are_no_row_are_refused(value):
    with pytest.raises(Corrupted):
        read_row(keys.effect(keys.shard_of(WORLD), 5, 5, INTENT), value)


def test_a_row_in_the_wrong_place_is_refused():
    stored = opening_rows(UNIVERSE, WORLD, [OPENING], 5).stored[0]
    for at in (keys.effect_at(INTENT), keys.effect(63, 5, 5, INTENT), b"\x02x\x00"):
        with pytest.raises(Corrupted):
            read_row(at, stored.value)


def test_the_fields_of_a_row_are_those_of_the_page():
    assert Row._fields[:5] == ("universe", "world", "intent", "priority", "ready_ns")


def test_receipts():
    ok = Receipt(INTENT, 7, "ok", b"\xa0", attempts=2)
    failed = Receipt(INTENT, 7, "failed", None, "effects.exhausted", "closed", 3, True)
    given = Receipt(INTENT, 7, "ok", Link(cid_of(b"\xa0")), who="ada", why="called")
    for receipt, frozen in ((ok, OK), (failed, FAILED), (given, GIVEN)):
        item = encode(receipt_item(KEY, UNIVERSE, WORLD, receipt))
        assert item.hex() == frozen
        assert KEY.verify(UNIVERSE, WORLD, decode(item))
        assert read_receipt(decode(item)) == receipt._replace(by=KEY.id)


def test_the_id_of_a_key():
    assert KEY.id == "630dcd2966c43366"


ROW_KEY = (
    "026566666563747300152915051c17979cfe362a00000100ff0102030405060708090a0b0c0d0e0f1011121314151617"
    "18191a1b1c1d1e1f00"
)
MARKER_KEY = (
    "0265666665637473000263616e63656c000100ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00"
)
FRESH = (
    "a365776f726c64500000000000000000000000000000000266696e74656e74ab636b6579676f726465722d3164626f72"
    "6e046463656c6c426f31646b696e646b62616e6b2e636861726765657472696564006668656967687407666d6f64756c"
    "656a73686f702f4f7264657266706172616d738141a068617474656d707473036864656c61795f6e73006a74696d656f"
    "75745f6e731b00000002540be40068756e6976657273655000000000000000000000000000000001"
)
WHOLE = (
    "a365776f726c64500000000000000000000000000000000266696e74656e74ad636b6579676f726465722d3164626f72"
    "6e046463656c6c426f31646b696e646b62616e6b2e636861726765656572726f72727468652062616e6b20697320636c"
    "6f736564656772616e74a2646e616d656462616e6b6765666665637473816b62616e6b2e636861726765657472696564"
    "026668656967687407666d6f64756c656a73686f702f4f7264657266706172616d73d82a58250001711220c19a797fa1"
    "fd590cd2e5b42d1cf5f246e29b91684e2f87404b81dc345c7a56a068617474656d707473036864656c61795f6e731a29"
    "b927006a74696d656f75745f6e731b00000002540be40068756e69766572736550000000000000000000000000000000"
    "01"
)
OK = (
    "a96262797036333064636432393636633433333636636d61635820dbfa193558215146efb9491c5d01caf5f65ba29be7"
    "00b4b201816e97f922997d646b696e6467726563656970746576616c75658141a0666865696768740766696e74656e74"
    "5820000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f66737461747573626f6b68617474"
    "656d7074730269657868617573746564f4"
)
FAILED = (
    "aa6262797036333064636432393636633433333636636d61635820a54847f3aa9405f0b98feb917b5915d20fe0b899f6"
    "f53e1c337962b4d9f77aa464636f646571656666656374732e657868617573746564646b696e64677265636569707464"
    "7465787466636c6f736564666865696768740766696e74656e745820000102030405060708090a0b0c0d0e0f10111213"
    "1415161718191a1b1c1d1e1f66737461747573666661696c656468617474656d7074730369657868617573746564f5"
)
GIVEN = (
    "ab6262797036333064636432393636633433333636636d616358206c88eec3214a4d377a1e1550564550b2c2ec04a208"
    "ea1a3e193c21de8814bf556377686f63616461637768796663616c6c6564646b696e6467726563656970746576616c75"
    "65d82a58250001711220c19a797fa1fd590cd2e5b42d1cf5f246e29b91684e2f87404b81dc345c7a56a0666865696768"
    "740766696e74656e745820000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f6673746174"
    "7573626f6b68617474656d7074730069657868617573746564f4"
)
