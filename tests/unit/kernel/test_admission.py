"""Admission: ids, duplicates, refusals, controls, pause."""

from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import Corrupted, TooOld
from cellule.kernel import limits
from cellule.kernel.items import Admitted, ControlItem, Duplicate, EventItem, RefusalItem, RefusedItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import BaselineRecord, ControlRecord, RefusedRecord, SnapshotRecord
from cellule.kernel.state import dedupe
from cellule.values.cbor import encode
from cellule.values.link import Link
from tests.support.frames import with_change


def paid(order: str = "o1", **options: object) -> EventItem:
    return EventItem("shop/Paid@1", encode({"order": order}), **options)


@pytest.mark.parametrize("given", ["order-17", b"\x01\x02", UUID(int=5)])
def test_the_same_id_is_applied_once(world, given):
    first = world.beat([paid(id=given, explicit=True)])
    again = world.beat([paid(id=given, explicit=True), paid(id=given, explicit=True)])
    assert isinstance(first.outcomes[0], Admitted)
    assert again.outcomes == [Duplicate(first.outcomes[0].height)] * 2
    assert again.frame is None
    assert world.state("shop/Order", b"o1")["seen"] == 1


def test_a_duplicate_in_the_same_beat_is_found(world):
    beat = world.beat([paid(id="a", explicit=True), paid(id="a", explicit=True)])
    assert [type(outcome) for outcome in beat.outcomes] == [Admitted, Duplicate]


def test_the_same_id_with_another_payload_is_refused(world):
    world.beat([paid(id="a", explicit=True)])
    outcome = world.beat([paid("o2", id="a", explicit=True)]).outcomes[0]
    assert outcome.error.code == "kernel.id_reused"
    assert world.state("shop/Order", b"o2") is None


def test_an_id_for_the_records_only_does_not_enter_the_window(world):
    world.beat([paid(id="a"), paid(id="a")])
    assert world.state("shop/Order", b"o1")["seen"] == 2
    assert world.world.ledger.dedupe.count() == 0


def test_duplicates_are_found_after_restore_and_in_closed_buckets(make_world, monkeypatch):
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 10)
    world = make_world()
    for at in range(35):
        world.beat([paid(id=f"id-{at}", explicit=True)])
        if at == 20:
            world.snapshot()
    assert len(world.world.ledger.dedupe.closed) == 3
    live = world.world
    for position in range(len(world.snapshots)):
        world.world = world.restored(position)
        for at in (0, 9, 15, 21, 34):
            assert isinstance(world.beat([paid(id=f"id-{at}", explicit=True)]).outcomes[0], Duplicate)
    world.world = live


def test_old_buckets_leave_and_older_items_are_too_old(make_world, monkeypatch):
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 4)
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MIN", 4)
    world = make_world()
    issued = world.now_ns
    for at in range(12):
        world.beat([paid(id=f"id-{at}", explicit=True)])
        world.now_ns += limits.DEDUPE_WINDOW_NS // 4
    assert world.world.ledger.dedupe.floor_ns > issued
    outcome = world.beat([paid(id="id-0", explicit=True, issued_ns=issued)]).outcomes[0]
    assert isinstance(outcome.error, TooOld)
    fresh = world.beat([paid(id="id-11", explicit=True, issued_ns=world.now_ns)]).outcomes[0]
    assert isinstance(fresh, Duplicate)


def test_the_number_of_ids_is_bounded(make_world, monkeypatch):
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 4)
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MAX", 10)
    world = make_world()
    world.beat([paid(id=f"id-{at}", explicit=True) for at in range(4)])
    for at in range(4, 30):
        world.now_ns += limits.DEDUPE_KEPT_NS
        world.beat([paid(id=f"id-{at}", explicit=True)])
    assert world.world.ledger.dedupe.count() <= 10


def test_an_id_that_would_push_out_a_young_one_is_refused_and_free(make_world, monkeypatch):
    """The oldest ids left however young they were, and who repeated himself was heard twice."""
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 4)
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MAX", 10)
    world = make_world()
    for at in range(10):
        assert isinstance(world.beat([paid(id=f"id-{at}", explicit=True)]).outcomes[0], Admitted)
    world.now_ns += limits.DEDUPE_KEPT_NS
    late = paid(id="late", explicit=True)
    refused = world.beat([late, paid(id="id-0", explicit=True), paid()]).outcomes
    assert refused[0].error.code == "kernel.ids_full"
    assert "10 of the last minute" in str(refused[0].error)
    assert isinstance(refused[1], Duplicate)
    assert isinstance(refused[2], Admitted)  # it has no id to remember
    world.snapshot()
    world.world = world.restored(len(world.snapshots) - 1)
    assert world.beat([late]).outcomes[0].error.code == "kernel.ids_full"
    world.now_ns += 1
    assert isinstance(world.beat([late]).outcomes[0], Admitted)
    assert isinstance(world.beat([late]).outcomes[0], Duplicate)
    assert isinstance(world.beat([paid(id="id-0", explicit=True)]).outcomes[0], Admitted)  # a minute later


def test_verbs_of_people_are_done_also_then_and_push_no_young_id_out(make_world, monkeypatch):
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 4)
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MAX", 10)
    world = make_world()
    for at in range(10):
        world.beat([paid(id=f"id-{at}", explicit=True)])
    for at in range(6):
        verb = ControlItem("resume" if at % 2 else "pause", "ada", "a try", {}, id=f"verb-{at}")
        assert isinstance(world.beat([verb]).outcomes[0], Admitted)
    assert isinstance(world.beat([paid(id="id-0", explicit=True)]).outcomes[0], Duplicate)


def test_an_event_that_met_another_version_needs_no_further_room_for_its_id(make_world, monkeypatch):
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 2)
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MAX", 3)
    world = make_world()
    world.beat([paid(id="a", explicit=True, expected_version=7)])
    for at in range(2):
        world.beat([paid(id=f"id-{at}", explicit=True)])
    assert world.beat([paid(id="b", explicit=True)]).outcomes[0].error.code == "kernel.ids_full"
    again = paid(id="a", explicit=True, expected_version=2)
    assert isinstance(world.beat([again]).outcomes[0], Admitted)


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (EventItem("shop/Nope@1", encode({})), "routing."),
        (EventItem("shop/Paid@1", encode({})), "routing."),
        (EventItem("shop/Order@1", encode({"total": 1, "paid": True, "seen": 1})), "routing.no_subscriber"),
    ],
)
def test_a_direct_item_is_refused_without_a_record_and_a_durable_one_with(world, item, code):
    beat = world.beat([item])
    assert beat.frame is None
    assert isinstance(beat.outcomes[0], RefusedItem)
    assert beat.outcomes[0].error.code.startswith(code)
    item.durable = True
    beat = world.beat([item])
    record = decode_frame(beat.frame).records[0]
    assert isinstance(record, RefusedRecord)
    assert beat.outcomes[0].height == beat.first


def test_a_paused_world_admits_and_steps_after_resume(world):
    world.control("pause")
    beat = world.beat([paid(), paid("o2")])
    assert beat.steps == []
    assert not beat.more
    world.snapshot()
    assert world.state("shop/Order", b"o1") is None
    resumed = world.control("resume")
    assert [step.key for step in resumed.steps] == [b"o1", b"o2"]


def test_a_pause_keeps_what_was_emitted(world):
    world.send("shop/Ping@1", {"to": "a", "left": 2})
    world.control("pause")
    assert world.beat().frame is None
    world.control("resume")
    world.settle()
    assert world.state("shop/Pinger", b"axx") == {"count": 1}


def test_controls_record_who_and_why(world):
    beat = world.beat([ControlItem("pause", "ada", "maintenance")])
    assert decode_frame(beat.frame).records == [ControlRecord(0, "pause", "ada", "maintenance", {})]


@pytest.mark.parametrize(
    ("verb", "arguments", "code"),
    [
        ("dance", {}, "kernel.verb_unknown"),
        ("deploy", {}, "kernel.argument"),
        ("deploy", {"manifest": "x"}, "kernel.argument"),
        ("snapshot", {}, "kernel.argument"),
        ("cell.resume", {"key": "text", "module": "shop/Order"}, "kernel.argument"),
        ("cell.resume", {"key": b"x"}, "kernel.argument"),
        ("cell.resume", {"modul": "shop/Order"}, "kernel.argument"),  # not all cells of all modules
        ("cell.migrate", {"all": True, "modul": "shop/Order"}, "kernel.argument"),
        ("cell.drop", {"modul": "shop/Order"}, "kernel.argument"),
        ("cell.migrate", {"key": b"x", "module": "shop/Order"}, "kernel.no_cell"),
    ],
)
def test_a_control_that_cannot_be_done_is_refused_whole(world, verb, arguments, code):
    assert world.control(verb, **arguments).outcomes[0].error.code == code
    durable = world.beat([ControlItem(verb, "ada", "why", arguments, durable=True)])
    assert isinstance(decode_frame(durable.frame).records[0], RefusedRecord)


def test_snapshots_can_be_noted_in_the_journal(world):
    root = world.snapshot()
    for verb, kind in (("snapshot", SnapshotRecord), ("baseline", BaselineRecord)):
        noted = decode_frame(world.control(verb, height=1, snapshot=Link(root)).frame).records
        assert (type(noted[1]), noted[1][1:]) == (kind, (1, Link(root)))


def test_what_is_no_item_is_refused_and_those_behind_it_are_admitted(world):
    outcomes = world.beat([object(), paid("o1"), None, paid("o2")]).outcomes
    assert [type(outcome) for outcome in outcomes] == [RefusedItem, Admitted, RefusedItem, Admitted]
    assert outcomes[0].error.code == "kernel.item_unknown"


@pytest.mark.parametrize(("before_ns", "is_new"), [(0, True), (5, True), (6, False)])
def test_when_an_event_was_issued_is_measured_by_the_clock_of_its_sender(world, before_ns, is_new):
    """The world's time may be ahead of the clock: by as much the oldest remembered id is ahead, too."""
    world.beat([paid()])
    world.world.ledger.dedupe.floor_ns = floor_ns = world.now_ns
    world.now_ns -= 5
    [outcome] = world.beat([paid(id="a", explicit=True, issued_ns=floor_ns - before_ns)]).outcomes
    assert isinstance(outcome, Admitted) is is_new
    assert is_new or isinstance(outcome.error, TooOld)
    world.world.ledger.dedupe.floor_ns = 0


def test_what_the_host_refused_is_recorded_and_those_behind_it_are_admitted(world):
    refused = RefusalItem("shop/Paid@1", "host.lost", "gone")
    outcomes = world.beat([refused, paid("o1"), refused, paid("o2")]).outcomes
    assert len(outcomes) == 4
    assert [isinstance(outcomes[at], Admitted) for at in (1, 3)] == [True, True]


@pytest.mark.parametrize("until", [-1, 1 << 63, True, "7", 1.0])
def test_a_control_takes_no_height_that_cannot_be(world, until):
    [outcome] = world.control("cell.resume", all=True, until=until).outcomes
    assert isinstance(outcome, RefusedItem)
    assert outcome.error.code == "kernel.argument"


def test_the_highest_height_is_one(world):
    [outcome] = world.control("cell.resume", all=True, until=(1 << 63) - 1).outcomes
    assert isinstance(outcome, Admitted)


def test_a_journal_with_a_deduplicated_event_without_its_id_is_corrupted(world):
    world.beat([paid("o1", id="a", explicit=True)])
    lie = with_change(world.frames[-1], 0, lambda fields: fields.update(id=None))
    with pytest.raises(Corrupted, match="a deduplicated event has no id"):
        world.restored(frames=[*world.frames[:-1], lie])
