from __future__ import annotations

import hashlib
from uuid import UUID

import pytest

from cellule.errors import Rejected
from cellule.store import keys
from cellule.store.engine import KEY_BYTES_MAX, Stamp, is_counter
from cellule.store.families import check_one_family
from cellule.store.tuples import INT_MAX, Position, unpack

U = UUID("018f4e8a-0000-7000-8000-000000000001")
W = UUID("018f4e8a-0000-7000-8000-0000000000ff")
CID = bytes([1, 0x71, 0x12, 0x20]) + hashlib.sha256(b"").digest()
BODY = bytes(range(16))
STAMP = Stamp(bytes(range(12)))


@pytest.mark.parametrize(
    ("key", "elements"),
    [
        (keys.format_version(), ("format",)),
        (keys.store_objects(), ("objects",)),
        (keys.node_key(), ("node_key",)),
        (keys.universe_name("main"), ("universes", "main")),
        (keys.universe_meta(U), ("u", U, "meta")),
        (keys.universe_world(U, W), ("u", U, "worlds", W)),
        (keys.ref(U, "orders"), ("u", U, "refs", "orders")),
        (keys.erasure_key(U, b"k1"), ("u", U, "keys", b"k1")),
        (keys.cas(U, CID), ("u", U, "cas", CID)),
        (keys.cas_chunk(U, BODY, 3), ("u", U, "chunks", BODY, 3)),
        (keys.cas_generation(U), ("u", U, "generation")),
        (keys.world_meta(U, W), ("w", U, W, "meta")),
        (keys.world_epoch(U, W), ("w", U, W, "epoch")),
        (keys.world_head(U, W), ("w", U, W, "head")),
        (keys.world_desired(U, W), ("w", U, W, "desired")),
        (keys.world_baseline(U, W), ("w", U, W, "baseline")),
        (keys.journal(U, W, 300), ("w", U, W, "journal", 300)),
        (keys.journal_part(U, W, 300, 2), ("w", U, W, "journal", 300, 2)),
        (keys.segment(U, W, 300), ("w", U, W, "segments", 300)),
        (keys.snapshot(U, W, 300), ("w", U, W, "snapshots", 300)),
        (keys.inbox(U, W, STAMP), ("w", U, W, "inbox", Position(STAMP))),
        (keys.effect(63, -1, 5, CID), ("effects", 63, -1, 5, CID)),
        (keys.effect_at(CID), ("effects", "at", CID)),
        (keys.effect_cancel(CID), ("effects", "cancel", CID)),
        (keys.wake(0, 7, U, W), ("wake", 0, 7, U, W)),
        (keys.ready(1, U, W), ("ready", 1, U, W)),
        (keys.bell(2), (b"bell", 2)),
        (keys.session(U), ("session", U)),
        (keys.store_owner(), ("owner",)),
    ],
)
def test_each_row_has_its_tuple(key, elements):
    assert unpack(key) == elements
    assert is_counter(key) is (elements[0] == b"bell")


def test_an_inbox_key_is_its_prefix_and_its_stamp():
    assert keys.inbox_prefix(U, W) + STAMP == keys.inbox(U, W, STAMP)
    assert keys.inbox_stamp(keys.inbox(U, W, STAMP)) == STAMP


def test_a_journal_key_tells_its_height():
    assert keys.journal_height(keys.journal(U, W, 70_000)) == 70_000
    assert keys.journal_height(keys.journal_part(U, W, 70_000, 1)) == 70_000


def test_shards_are_the_low_bits_of_the_hash_of_the_world():
    assert keys.shard_of(W) == hashlib.sha256(W.bytes).digest()[0] & 63
    assert {keys.shard_of(UUID(int=n)) for n in range(2_000)} == set(range(64))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: keys.universe_name(""), "universe name"),
        (lambda: keys.universe_name("u" * 256), "universe name"),
        (lambda: keys.ref(U, ""), "ref"),
        (lambda: keys.ref(U, "\u00e9" * 128), "ref"),
        (lambda: keys.ref(U, "\ud800"), "ref"),
        (lambda: keys.cas(U, b""), "cid"),
        (lambda: keys.cas(U, bytes(129)), "cid"),
        (lambda: keys.cas_chunk(U, bytes(15), 0), "body"),
        (lambda: keys.cas_chunk(U, bytes(16), -1), "chunk"),
        (lambda: keys.erasure_key(U, b""), "key id"),
        (lambda: keys.journal(U, W, -1), "height"),
        (lambda: keys.journal(U, W, INT_MAX + 1), "height"),
        (lambda: keys.journal_part(U, W, 1, -1), "part"),
        (lambda: keys.effect(64, 0, 0, CID), "shard"),
        (lambda: keys.effect(0, 0, -1, CID), "ready_ns"),
        (lambda: keys.effect_at(b""), "intent"),
        (lambda: keys.wake(0, -1, U, W), "due_ns"),
        (lambda: keys.bell(-1), "shard"),
    ],
)
def test_a_part_out_of_bounds_is_refused_by_its_name(make, field):
    with pytest.raises(Rejected, match=field) as caught:
        make()
    assert caught.value.code == "store.key_field"
    assert caught.value.fields["field"] == field


def test_the_longest_parts_still_make_a_key():
    longest = [
        keys.universe_name("\0" * 255),
        keys.ref(U, "\0" * 255),
        keys.cas(U, bytes(128)),
        keys.cas_chunk(U, bytes(16), INT_MAX),
        keys.effect(63, INT_MAX, INT_MAX, bytes(128)),
    ]
    assert max(len(key) for key in longest) <= KEY_BYTES_MAX


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        (
            keys.universe_name_range(),
            [keys.universe_name("a")],
            [keys.universe_meta(U), keys.format_version()],
        ),
        (
            keys.universe_world_range(U),
            [keys.universe_world(U, W)],
            [keys.universe_world(W, W), keys.universe_meta(U)],
        ),
        (
            keys.ref_range(U),
            [keys.ref(U, "a"), keys.ref(U, "\0")],
            [keys.ref(W, "a"), keys.universe_world(U, W)],
        ),
        (
            keys.cas_range(U),
            [keys.cas(U, CID), keys.cas(U, b"\xff")],
            [keys.cas(W, CID), keys.cas_chunk(U, BODY, 0)],
        ),
        (
            keys.cas_chunk_range(U, BODY),
            [keys.cas_chunk(U, BODY, 0), keys.cas_chunk(U, BODY, INT_MAX)],
            [keys.cas_chunk(U, bytes(16), 0), keys.cas_chunk(W, BODY, 0)],
        ),
        (
            keys.journal_range(U, W),
            [keys.journal(U, W, 0), keys.journal(U, W, INT_MAX), keys.journal_part(U, W, INT_MAX, 3)],
            [keys.world_head(U, W), keys.segment(U, W, 1), keys.journal(W, U, 1)],
        ),
        (
            keys.journal_range(U, W, 5, 9),
            [keys.journal(U, W, 5), keys.journal_part(U, W, 9, 7)],
            [keys.journal_part(U, W, 4, 9), keys.journal(U, W, 10)],
        ),
        (
            keys.segment_range(U, W, 2, 3),
            [keys.segment(U, W, 2), keys.segment(U, W, 3)],
            [keys.segment(U, W, 4)],
        ),
        (keys.snapshot_range(U, W), [keys.snapshot(U, W, 256)], [keys.segment(U, W, 256)]),
        (keys.inbox_range(U, W), [keys.inbox(U, W, STAMP)], [keys.world_head(U, W), keys.inbox(W, U, STAMP)]),
        (
            keys.effect_range(1, 0, 100),
            [keys.effect(1, 0, 0, CID), keys.effect(1, 0, 100, CID)],
            [
                keys.effect(1, 0, 101, CID),
                keys.effect(1, 1, 5, CID),
                keys.effect(2, 0, 5, CID),
                keys.effect_at(CID),
            ],
        ),
        (keys.wake_range(1, 50), [keys.wake(1, 50, U, W)], [keys.wake(1, 51, U, W), keys.wake(0, 1, U, W)]),
        (keys.ready_range(1), [keys.ready(1, U, W)], [keys.ready(2, U, W)]),
        (keys.session_range(), [keys.session(U)], [keys.ready(1, U, W)]),
    ],
)
def test_a_range_holds_its_rows_and_no_others(bounds, inside, outside):
    begin, end = bounds
    assert all(begin <= key < end for key in inside)
    assert not any(begin <= key < end for key in outside)
    check_one_family(begin, end)
