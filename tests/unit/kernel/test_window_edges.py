"""The edges of the dedupe window, of a log's tail and of time: rules that both ways of the kernel share."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.need import Nodes, drive
from cellule.kernel.state import dedupe
from cellule.kernel.state import log_state as log
from cellule.kernel.state.dedupe import Dedupe
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link

WINDOW = dedupe.DEDUPE_WINDOW_NS


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    for name, value in (("BUCKET_IDS", 2), ("IDS_MIN", 1), ("IDS_MAX", 100)):
        monkeypatch.setattr(dedupe, f"DEDUPE_{name}", value)


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def is_known(ids: Dedupe, number: bytes) -> bool:
    nodes = Nodes(0)
    return drive(ids.find(number, nodes), nodes, lambda cids: {}) is not None


def filled(*moments: int) -> Dedupe:
    """An id at each moment, a frame each."""
    ids = Dedupe()
    for number, now_ns in enumerate(moments):
        ids.add(key(number), number + 1, 0, now_ns)
        ids.roll(now_ns)
    return ids


def test_a_bucket_ages_by_its_newest_id():
    ids = filled(10, 500, 600, 700)
    ids.roll(500 + WINDOW)  # the first id is older than the window; the second is just inside
    assert is_known(ids, key(1))
    assert is_known(ids, key(0))
    ids.roll(501 + WINDOW)
    assert not is_known(ids, key(1))
    assert ids.floor_ns == 600


def test_ids_of_the_moment_at_which_a_bucket_left_are_too_old():
    """Two buckets share a moment: what was issued then may have been in the one that left."""
    ids = filled(10, 500, 500, 700)
    ids.roll(501 + WINDOW)
    assert not is_known(ids, key(1))
    assert is_known(ids, key(2))
    assert ids.floor_ns == 501


def test_as_many_ids_as_a_world_may_remember_are_remembered(monkeypatch):
    """None of them is young any more, and none older than the window: only a further id takes one's place."""
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MAX", 4)
    ids = filled(1, 2, 3, 4)
    ids.roll(4 + dedupe.DEDUPE_KEPT_NS + 1)
    assert is_known(ids, key(0))
    ids.add(key(9), 9, 0, 5 + dedupe.DEDUPE_KEPT_NS)
    ids.roll(5 + dedupe.DEDUPE_KEPT_NS)
    assert not is_known(ids, key(0))
    assert is_known(ids, key(2))


@pytest.mark.parametrize("prints", [bytes(4), bytes(12), "text", [1, 2]])
def test_marks_of_another_number_of_ids_are_damage(prints):
    """A mark that is missing is an id that would be applied again."""
    ids, blocks = filled(1, 2), {}
    saved = ids.save(blocks)
    saved["buckets"][0]["prints"] = Link(cid := cid_of(encode(prints)))
    blocks[cid] = encode(prints)
    nodes = Nodes(0)
    loaded = drive(Dedupe.load(saved, nodes), nodes, blocks.__getitem__)
    with pytest.raises(Corrupted, match="is not a bucket of ids"):
        drive(loaded.find(key(0), nodes), nodes, lambda cids: {cid: blocks[cid] for cid in cids})


@pytest.mark.parametrize("is_saved", [False, True])
def test_every_id_of_a_closed_bucket_is_found_and_none_beside_it(monkeypatch, is_saved):
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 40)
    ids, blocks, nodes = Dedupe(), {}, Nodes(0)
    for number in range(40):
        ids.add(key(2 * number + 1), number + 1, 5 * number, 1)
    ids.roll(1)
    assert not ids.open
    if is_saved:
        ids = drive(Dedupe.load(ids.save(blocks), nodes), nodes, blocks.__getitem__)
    found = [
        drive(ids.find(key(number), nodes), nodes, lambda cids: {cid: blocks[cid] for cid in cids})
        for number in range(82)
    ]
    assert found[1::2] == [*(dedupe.Seen(number + 1, 5 * number) for number in range(40)), None]
    assert found[::2] == [None] * 41


@pytest.mark.parametrize("position", range(16))
def test_ids_that_differ_in_one_byte_are_two(position):
    given = bytes(range(16))
    other = bytearray(given)
    other[position] ^= 1
    ids = Dedupe()
    ids.add(given, 1, 0, 1)
    ids.add(key(99), 2, 0, 1)
    ids.roll(1)
    assert not ids.open  # it is read from a closed bucket
    assert is_known(ids, given)
    assert not is_known(ids, bytes(other))


@pytest.mark.parametrize("back_ns", [1, 999, 999_999, 1_000_000])
def test_a_clock_that_goes_back_ever_so_little_does_not_take_the_journal_with_it(world, back_ns):
    world.now_ns += 5_000_000_000
    first = world.beat([EventItem("shop/Paid@1", encode({"order": "o1"}))])
    world.now_ns -= back_ns
    second = world.beat([EventItem("shop/Paid@1", encode({"order": "o1"}))])
    times = [decode_frame(beat.frame).header.now_ns for beat in (first, second)]
    assert times[0] == times[1]
    world.assert_replays()


def test_a_tail_is_full_at_its_very_size():
    assert not log.is_full(bytes(log.LOG_CHUNK_BYTES - 1))
    assert log.is_full(bytes(log.LOG_CHUNK_BYTES))
