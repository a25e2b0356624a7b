"""Schedules that people trigger and make up for, and that are put off by chance."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import Admitted, ControlItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, EventRecord, RefusedRecord, TimerRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.values.calendar import DUE_NS_MAX
from cellule.values.cbor import encode
from cellule.values.link import Link
from tests.support.frames import with_change
from tests.support.kernel_bank import HOUR, MINUTE, every


def ticks(bank):
    return [record.id for record in bank.records() if isinstance(record, EventRecord) and record.cause]


def test_a_schedule_is_triggered_now_and_its_next_time_stays(make_bank):
    bank = make_bank(schedules=every(HOUR, overlap="skip"))
    before = bank.book.schedules["tick"]
    bank.ask(("bank.charge", {"amount": 1}), order="s")  # busy: a person's word counts all the same
    bank.world.control("schedule.trigger", name="tick")
    assert ticks(bank) == [f"schedule:tick:{bank.world.now_ns}"]
    assert bank.book.schedules["tick"] == before
    bank.world.settle()
    assert [schema for schema, _ in bank.heard("s")].count("bank/Tick@1") == 1


def test_a_range_of_the_past_is_made_up_for(make_bank):
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    start = bank.world.now_ns - bank.world.now_ns % MINUTE
    bank.world.control("schedule.pause", name="tick")
    bank.world.now_ns += HOUR
    bank.world.control("schedule.backfill", name="tick", from_ns=start + MINUTE, to_ns=start + 5 * MINUTE)
    assert ticks(bank) == [f"schedule:tick:{start + n * MINUTE}" for n in range(1, 6)]
    control = [record for record in bank.records() if isinstance(record, ControlRecord)][-1]
    assert control.arguments["sent"] == 5


def test_a_range_has_its_first_and_its_last_time_and_none_beside_them(make_bank):
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    start = bank.world.now_ns - bank.world.now_ns % MINUTE
    bank.world.control("schedule.pause", name="tick")
    bank.world.now_ns += HOUR
    third = start + 3 * MINUTE
    for first, last in ((start + MINUTE + 1, start + 2 * MINUTE), (third, third + MINUTE - 1)):
        bank.world.control("schedule.backfill", name="tick", from_ns=first, to_ns=last)
    assert ticks(bank) == [f"schedule:tick:{start + n * MINUTE}" for n in (2, 3)]


def test_a_schedule_that_skips_makes_nothing_up(make_bank):
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    bank.world.now_ns += HOUR
    bank.world.settle()
    told = [record.what for record in bank.records() if isinstance(record, TimerRecord)]
    assert [(each.name, each.made_up) for each in told] == [("tick", 0)] * 2


def test_the_timer_of_a_schedule_is_found_among_others_of_its_time(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.schedules.TIMERS_PAGE", 2)
    others = {f"a{number}": every(MINUTE)["tick"] for number in range(5)}
    bank = make_bank(schedules={**others, **every(MINUTE)})
    bank.world.control("schedule.pause", name="tick")
    assert bank.book.schedules["tick"].paused
    assert bank.book.schedules["tick"].due_ns == 0
    bank.world.advance(MINUTE)
    assert len(ticks(bank)) == 5
    assert not any(name.startswith("schedule:tick") for name in ticks(bank))


def test_a_journal_that_takes_the_timer_of_another_schedule_is_corrupted(make_bank):
    bank = make_bank(schedules={"tock": every(MINUTE)["tick"], **every(MINUTE)})
    timers = {
        record.what.name: pair_key(record.due_ns, height)
        for height, record in enumerate(bank.records(), 1) if isinstance(record, TimerRecord)
    }  # fmt: skip
    bank.world.control("schedule.pause", name="tick")
    frame = bank.world.frames[-1]
    at = next(at for at, each in enumerate(decode_frame(frame).records) if isinstance(each, TimerRecord))
    lie = with_change(frame, at, lambda fields: fields.update(fired=timers["tock"]))
    with pytest.raises(Corrupted, match="is not that of schedule tick"):
        bank.world.restored(frames=[*bank.world.frames[:-1], lie])


def test_what_a_frame_has_no_room_for_is_left(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.schedules.BACKFILL_MAX", 3)
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    start = bank.world.now_ns - bank.world.now_ns % MINUTE
    bank.world.control("schedule.pause", name="tick")
    bank.world.now_ns += HOUR
    bank.world.control("schedule.backfill", name="tick", from_ns=start + MINUTE, to_ns=start + 5 * MINUTE)
    control = [record for record in bank.records() if isinstance(record, ControlRecord)][-1]
    assert (control.arguments["sent"], control.arguments["more"]) == (3, start + 4 * MINUTE)


@pytest.mark.parametrize(
    ("verb", "arguments", "code"),
    [
        ("trigger", {"name": "tock"}, "kernel.schedule_unknown"),
        ("trigger", {}, "kernel.schedule_unknown"),
        ("backfill", {"name": "tick"}, "kernel.argument"),
        ("backfill", {"name": "tick", "from_ns": 5, "to_ns": 4}, "kernel.argument"),
        ("backfill", {"name": "tick", "from_ns": 1, "to_ns": 1 << 62}, "kernel.argument"),
        ("backfill", {"name": "tick", "from_ns": "1", "to_ns": 2}, "kernel.argument"),
    ],
)
def test_what_cannot_be_triggered_is_refused(make_bank, verb, arguments, code):
    bank = make_bank(schedules=every(MINUTE))
    outcome = bank.world.control(f"schedule.{verb}", **arguments).outcomes[0]
    assert outcome.error.code == code


@pytest.mark.parametrize("verb", ["trigger", "pause"])
@pytest.mark.parametrize("is_new", [True, False], ids=["of a new world", "of a deploy"])
def test_a_schedule_is_known_in_the_beat_that_brings_it(make_bank, bank_document, verb, is_new):
    """It was refused by name, and stood in the list of those that there are."""
    with_schedule = bank_document(schedules=every(HOUR))
    bank, items = make_bank(schedules=every(HOUR) if is_new else {}), []
    world = bank.world
    if is_new:
        world.frames.clear()
        world.world = world.restored(0, [])
    else:
        loaded = load_manifest(with_schedule)
        world.cas[loaded.cid] = loaded.data
        items.append(ControlItem("deploy", "ada", "why", {"manifest": Link(loaded.cid)}))
    outcomes = world.beat([*items, ControlItem(f"schedule.{verb}", "ada", "why", {"name": "tick"})]).outcomes
    assert isinstance(outcomes[-1], Admitted)
    row = bank.book.schedules["tick"]
    assert (row.paused, row.due_ns > 0) == ((True, False) if verb == "pause" else (False, True))
    assert len(ticks(bank)) == (verb == "trigger")
    world.assert_replays()


def test_jitter_puts_each_time_off_by_what_the_journal_says(make_bank):
    bank = make_bank(schedules=every(HOUR, jitter_ns=10 * MINUTE))
    start = bank.world.now_ns - bank.world.now_ns % HOUR
    offsets = []
    for number in range(1, 13):
        offset = bank.book.schedules["tick"].due_ns - start - number * HOUR
        offsets.append(offset)
        bank.world.now_ns = bank.book.schedules["tick"].due_ns
        bank.world.settle()
        bank.restore_in_place()
    assert all(0 <= offset <= 10 * MINUTE for offset in offsets)
    assert len(set(offsets)) == 12
    assert len(ticks(bank)) == 12


def test_a_time_is_put_off_by_no_more_than_its_jitter_and_by_all_of_it(make_bank):
    bank = make_bank(schedules=every(MINUTE, jitter_ns=1))
    offsets = set()
    for _ in range(40):
        offsets.add(bank.book.schedules["tick"].due_ns % MINUTE)
        bank.world.advance(MINUTE)
    assert offsets == {0, 1}


def test_a_schedule_that_is_never_due_again_has_no_timer(make_bank, bank_document):
    bank = make_bank()
    bank.world.now_ns = DUE_NS_MAX
    bank.world.deploy(bank_document(schedules=every(MINUTE)))
    assert bank.book.schedules["tick"].due_ns == 0
    assert bank.world.beat().wake is None


@pytest.mark.parametrize("cron", ["* * * * *", "0 3 * * *", "0,30 3 * * 1", "59 23,0 * * *", "0 0 1,31 * *"])
def test_a_jitter_as_long_as_the_shortest_pause_of_a_cron_line_is_refused(bank_document, cron):
    """Times were put off behind the next ones, which took their place: 17 runs of 600 were sent."""
    gaps = {"* * * * *": 1, "0,30 3 * * 1": 30, "59 23,0 * * *": 60}
    gap = gaps.get(cron, 24 * 60) * MINUTE
    value = encode({"order": "s"})
    schedule = {"tick": {"cron": cron, "event": "bank/Tick@1", "value": value}}
    schedule["tick"]["jitter_ns"] = gap - 1
    load_manifest(bank_document(schedules=schedule))
    schedule["tick"]["jitter_ns"] = gap
    with pytest.raises(Rejected, match="the jitter is as long as the interval"):
        load_manifest(bank_document(schedules=schedule))


def test_a_jitter_as_long_as_the_interval_is_refused(bank_document):
    with pytest.raises(Rejected, match="jitter"):
        load_manifest(bank_document(schedules=every(MINUTE, jitter_ns=MINUTE)))


def test_what_finds_no_room_at_its_cell_is_refused_and_nothing_is_sent(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.schedules.QUEUE_MESSAGES_MAX", 2)
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    start = bank.world.now_ns - bank.world.now_ns % MINUTE
    bank.world.control("schedule.pause", name="tick")
    bank.world.now_ns += HOUR
    whole = {"name": "tick", "from_ns": start + MINUTE, "to_ns": start + 5 * MINUTE}
    outcome = bank.world.control("schedule.backfill", **whole).outcomes[0]
    assert outcome.error.code == "kernel.queue_full"
    assert ticks(bank) == []


def test_the_last_place_of_a_queue_is_taken_and_no_other(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.schedules.QUEUE_MESSAGES_MAX", 2)
    bank = make_bank(schedules=every(MINUTE, catch_up="backfill", limit=10, overlap="allow"))
    start = bank.world.now_ns - bank.world.now_ns % MINUTE
    bank.world.control("schedule.pause", name="tick")
    bank.world.now_ns += HOUR

    def made_up(count):
        times = {"from_ns": start + MINUTE, "to_ns": start + count * MINUTE}
        return bank.world.control("schedule.backfill", name="tick", **times).outcomes[0]

    assert made_up(3).error.code == "kernel.queue_full"
    assert made_up(2).height
    assert len(ticks(bank)) == 2


def test_due_events_that_find_no_room_at_their_cell_are_recorded_as_refused(make_bank, monkeypatch):
    """They were left out without a word."""
    monkeypatch.setattr("cellule.kernel.decide.schedules.QUEUE_MESSAGES_MAX", 2)
    bank = make_bank(schedules=every(MINUTE, catch_up="backfill", limit=10, overlap="allow"))
    bank.world.now_ns += 5 * MINUTE
    bank.world.settle()
    refused = [record for record in bank.records() if isinstance(record, RefusedRecord)]
    assert [(each.schema, each.code) for each in refused] == [("bank/Tick@1", "kernel.queue_full")] * len(
        refused
    )
    assert (len(ticks(bank)), len(refused)) == (2, 3)


def test_a_range_goes_on_where_the_frame_had_no_room(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.schedules.FRAME_BYTES_ADMIT", 2_000)
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    start = bank.world.now_ns - bank.world.now_ns % MINUTE
    bank.world.control("schedule.pause", name="tick")
    bank.world.now_ns += HOUR
    bank.world.control("schedule.backfill", name="tick", from_ns=start + MINUTE, to_ns=start + 50 * MINUTE)
    control = [record for record in bank.records() if isinstance(record, ControlRecord)][-1]
    sent = control.arguments["sent"]
    assert 1 <= sent < 10
    assert control.arguments["more"] == start + (sent + 1) * MINUTE
