"""The arguments of a commit: sorted, sealed, touched exactly as far as there are expectations."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import Rejected
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.postgres.install import check_schema_name
from cellule.store.engines.postgres.layout import arguments, commit_statement
from cellule.store.engines.postgres.writer import commit_arguments, stamps_of
from cellule.store.rows import seal_row

UNIVERSE, WORLD = UUID(int=1), UUID(int=2)
EPOCH, HEAD = keys.world_epoch(UNIVERSE, WORLD), keys.world_head(UNIVERSE, WORLD)
FRAME = keys.journal(UNIVERSE, WORLD, 7)
INBOX = keys.inbox_prefix(UNIVERSE, WORLD)
OBJECT = keys.cas(UNIVERSE, b"\x01" * 36)


def named(batch, stamps=()):
    values = commit_arguments(batch, stamps)
    assert len(values) == len(arguments())
    return {name: value for (name, _), value in zip(arguments(), values, strict=True) if value is not None}


def test_a_frame_commit_locks_its_expectations_and_writes_the_frame_directly():
    batch = Batch(expect={HEAD: b"old", EPOCH: b"1"}, set={FRAME: b"frame", HEAD: b"new"})
    assert named(batch) == {
        "meta_witness_keys": [EPOCH],
        "meta_witness_values": [seal_row(EPOCH, b"1")],
        "meta_expect_keys": [HEAD],
        "meta_expect_values": [seal_row(HEAD, b"old")],
        "meta_write_keys": [HEAD],
        "meta_write_values": [seal_row(HEAD, b"new")],
        "journal_write_keys": [FRAME],
        "journal_write_values": [seal_row(FRAME, b"frame")],
    }


def test_families_are_touched_up_to_the_last_one_with_expectations():
    batch = Batch(expect={OBJECT: None}, set={OBJECT: b"o", FRAME: b"f", HEAD: b"h"}, add={keys.bell(0): 1})
    found = named(batch)
    assert found["meta_touch_keys"] == [HEAD]
    assert found["journal_touch_keys"] == [FRAME]
    assert "cas_touch_keys" not in found, "the expected keys are touched in any case"
    assert found["cas_expect_keys"] == [OBJECT]
    assert found["cas_expect_values"] == [b""]
    assert "queue_touch_keys" not in found
    assert "meta_touch_keys" not in named(Batch(set={HEAD: b"h", FRAME: b"f"}))


def test_keys_written_beside_the_expected_ones_are_touched_with_them_in_order():
    names = {bytes([n]): b"v" for n in (9, 3, 200)}
    found = named(Batch(expect={b"\x05": b"e", b"\x03": None}, set={**names, b"\x05": b"v"}, clear=[b"\x04"]))
    assert found["meta_touch_keys"] == [b"\x03", b"\x04", b"\x05", b"\x09", b"\xc8"]


def test_what_is_expected_and_not_written_is_a_witness_and_locked_shared():
    found = named(Batch(expect={HEAD: b"old", EPOCH: b"mine"}, set={HEAD: b"new", FRAME: b"f"}))
    assert found["meta_witness_keys"] == [EPOCH]
    assert found["meta_witness_values"] == [seal_row(EPOCH, b"mine")]
    assert found["meta_expect_keys"] == [HEAD]
    assert "meta_touch_keys" not in found
    found = named(Batch(expect={EPOCH: b"mine", HEAD: b"old"}, clear=[HEAD]))
    assert (found["meta_witness_keys"], found["meta_expect_keys"]) == ([EPOCH], [HEAD])


def test_a_key_that_is_cleared_is_locked_by_an_empty_write_and_then_deleted():
    found = named(Batch(set={HEAD: b"h"}, clear=[EPOCH, EPOCH]))
    assert found["meta_write_keys"] == sorted([EPOCH, HEAD])
    assert dict(zip(found["meta_write_keys"], found["meta_write_values"], strict=True))[EPOCH] == b""
    assert found["meta_clear_keys"] == [EPOCH]


def test_keys_are_sorted_as_bytes():
    names = [bytes([n, m]) for n in (255, 2, 128) for m in (0, 255, 7)]
    found = named(Batch(set=dict.fromkeys(names, b"v")))
    assert found["meta_write_keys"] == sorted(names)


def test_ordered_values_are_sealed_under_their_whole_key():
    stamps = stamps_of(258, 2)
    assert [stamp.hex() for stamp in stamps] == ["000000000000000001020000", "000000000000000001020001"]
    found = named(Batch(ordered=[(INBOX, b"a"), (INBOX, b"b")]), stamps)
    assert found["queue_write_keys"] == [INBOX + stamp for stamp in stamps]
    assert found["queue_write_values"] == [
        seal_row(INBOX + stamps[0], b"a"),
        seal_row(INBOX + stamps[1], b"b"),
    ]


def test_counters_are_added_in_key_order_and_a_cleared_one_adds_nothing():
    batch = Batch(add={keys.bell(3): -5, keys.bell(1): 7}, clear=[keys.bell(2)])
    assert named(batch) == {
        "counter_add_keys": [keys.bell(1), keys.bell(2), keys.bell(3)],
        "counter_add_values": [7, 0, -5],
        "counter_clear_keys": [keys.bell(2)],
    }


def test_ranges_go_to_the_table_of_their_family():
    low, high = keys.journal_range(UNIVERSE, WORLD)
    assert named(Batch(clear_range=[(low, high)])) == {
        "journal_range_from": [low],
        "journal_range_until": [high],
    }


def test_an_empty_batch_has_no_arguments():
    assert named(Batch()) == {}


def test_the_commit_statement_passes_every_argument():
    assert commit_statement("s").endswith(f"${len(arguments())})")
    assert len(arguments()) <= 100, "PostgreSQL's limit of arguments"


@pytest.mark.parametrize(
    "name", ["", "Upper", "with space", 'quo"te', "semi;colon", "1st", "pg_own", "a" * 49, "ä"]
)
def test_a_schema_name_that_needs_quoting_is_refused(name):
    with pytest.raises(Rejected) as caught:
        check_schema_name(name)
    assert caught.value.code == "store.postgres_schema"


@pytest.mark.parametrize("name", ["cellule", "_", "a1_b2", "a" * 48])
def test_a_plain_schema_name_is_taken(name):
    check_schema_name(name)
