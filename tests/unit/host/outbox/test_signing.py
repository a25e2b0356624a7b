"""The node's key: made once, readable by its owner only, and what it signed cannot be changed or moved."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest

from cellule.errors import Rejected, Unavailable
from cellule.host.outbox.receipts import Receipt, read_receipt, receipt_item, sealed_receipt, trusted_receipt
from cellule.host.outbox.signatures import KEY_FILE, NodeKey, folder_key, memory_key
from cellule.sources import SystemEntropy
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.outbox import UNIVERSE, WORLD

KEY = NodeKey(bytes(range(32)))
RECEIPT = Receipt(b"i" * 32, 7, "ok", encode({"a": 1}), attempts=2)


def test_the_key_of_a_folder_is_made_once_with_closed_permissions(tmp_path):
    first = folder_key(tmp_path, SystemEntropy())
    again = folder_key(tmp_path, SystemEntropy())
    assert first.id == again.id
    assert len((tmp_path / KEY_FILE).read_bytes()) == 32
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_processes_that_race_end_with_one_key(tmp_path):
    found, gate = [], threading.Barrier(8)

    def make():
        gate.wait()
        found.append(folder_key(tmp_path, SystemEntropy()).id)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_may_reach_is_refused(tmp_path, mode):
    folder_key(tmp_path, SystemEntropy())
    (tmp_path / KEY_FILE).chmod(mode)
    with pytest.raises(Rejected) as caught:
        folder_key(tmp_path, SystemEntropy())
    assert caught.value.code == "effects.node_key"
    assert "chmod 600" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"short", bytes(33)])
def test_a_damaged_key_is_refused(tmp_path, data):
    path = tmp_path / KEY_FILE
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(Rejected) as caught:
        folder_key(tmp_path, SystemEntropy())
    assert caught.value.code == "effects.node_key"


def test_a_link_in_the_place_of_the_key_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_bytes(bytes(32))
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises((Rejected, Unavailable)) as caught:
        folder_key(tmp_path, SystemEntropy())
    assert caught.value.code.startswith("host.folder")


def test_a_key_of_the_wrong_length_is_refused():
    with pytest.raises(Rejected) as caught:
        NodeKey(b"short")
    assert caught.value.code == "effects.node_key"


def test_a_key_shows_its_id_and_nothing_else():
    assert repr(KEY) == f"NodeKey({KEY.id})"
    assert len(bytes.fromhex(KEY.id)) == 8
    assert (
        memory_key(SeededEntropy(1)).id == memory_key(SeededEntropy(1)).id != memory_key(SeededEntropy(2)).id
    )


def test_a_signed_receipt_is_verified_after_its_travel():
    item = decode(encode(receipt_item(KEY, UNIVERSE, WORLD, RECEIPT)))
    assert KEY.verify(UNIVERSE, WORLD, item)
    assert read_receipt(item) == RECEIPT._replace(by=KEY.id)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"}, {"height": 8}, {"intent": b"j" * 32}, {"value": [encode({"a": 2})]},
        {"mac": bytes(32)}, {"mac": "text"}, {"by": "00" * 8}, {"exhausted": True}, {"attempts": 1},
        {"who": "me"},
    ],
)  # fmt: skip
def test_a_changed_receipt_is_not_believed(change):
    item = receipt_item(KEY, UNIVERSE, WORLD, RECEIPT)
    assert not KEY.verify(UNIVERSE, WORLD, {**item, **change})


def test_a_receipt_of_another_world_universe_or_key_is_not_believed():
    item = receipt_item(KEY, UNIVERSE, WORLD, RECEIPT)
    assert not KEY.verify(UNIVERSE, UUID(int=9), item)
    assert not KEY.verify(UUID(int=9), WORLD, item)
    assert not NodeKey(bytes(32)).verify(UNIVERSE, WORLD, item)
    assert not KEY.verify(UNIVERSE, WORLD, {**item, "text": object()})
    del item["mac"]
    assert not KEY.verify(UNIVERSE, WORLD, item)


RECEIPTS = (
    RECEIPT, RECEIPT._replace(value=None, status="failed", code="a.b", text="no"),
    RECEIPT._replace(value=Link(cid_of(b"long")), attempts=3), RECEIPT._replace(who="ada", why="by hand"),
    RECEIPT._replace(intent=cid_of(b"")[:32]),
)  # fmt: skip


@pytest.mark.parametrize("receipt", RECEIPTS)
def test_sealed_bytes_are_those_of_the_signed_item_and_are_vouched_for(receipt):
    sealed = sealed_receipt(KEY, UNIVERSE, WORLD, receipt)
    assert sealed == encode(receipt_item(KEY, UNIVERSE, WORLD, receipt))
    assert KEY.vouches(UNIVERSE, WORLD, sealed)
    assert KEY.verify(UNIVERSE, WORLD, decode(sealed))
    assert trusted_receipt(decode(sealed)) == read_receipt(decode(sealed)) == receipt._replace(by=KEY.id)


def test_sealed_bytes_with_any_byte_changed_or_missing_are_not_vouched_for():
    sealed = sealed_receipt(KEY, UNIVERSE, WORLD, RECEIPT)
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        assert not KEY.vouches(UNIVERSE, WORLD, bytes(changed))
        assert not KEY.vouches(UNIVERSE, WORLD, sealed[:at])
    assert not KEY.vouches(UNIVERSE, UUID(int=9), sealed)
    assert not KEY.vouches(UUID(int=9), WORLD, sealed)
    assert not NodeKey(bytes(32)).vouches(UNIVERSE, WORLD, sealed)


@pytest.mark.parametrize("other", [b"", b"\x00", encode({}), encode({"kind": "event"}), encode([1, 2])])
def test_other_bytes_are_not_vouched_for(other):
    assert not KEY.vouches(UNIVERSE, WORLD, other)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "event"}, {"status": "done"}, {"intent": b"short"}, {"intent": "text"}, {"height": -1},
        {"height": True}, {"attempts": 1.0}, {"exhausted": 1}, {"code": 5}, {"value": [1]}, {"more": 1},
        {"value": [b"\xa0", [], b"key"]}, {"value": b"bare"},
    ],
)  # fmt: skip
def test_an_item_that_is_no_receipt_is_refused(change):
    item = receipt_item(KEY, UNIVERSE, WORLD, RECEIPT)
    with pytest.raises(Rejected):
        read_receipt({**item, **change})


@pytest.mark.parametrize("item", [None, 3, [], {}, {"kind": "receipt"}])
def test_other_values_are_no_receipts(item):
    with pytest.raises(Rejected) as caught:
        read_receipt(item)
    assert caught.value.code == "effects.receipt_item"
