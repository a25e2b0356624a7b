"""`timer.set`, and events that the calendar sends."""

from __future__ import annotations

import pytest

from cellule.kernel.decide.schedules import fingerprint
from cellule.kernel.journal.records import EventRecord
from cellule.values.cbor import encode
from tests.support.kernel_world import START_NS

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def test_a_timer_fires_as_an_event_with_its_key(bank):
    bank.ask(("timer.set", {"after_ns": 5 * SECOND, "key": "remind"}))
    bank.restore_in_place()
    bank.world.advance(4 * SECOND)
    assert len(bank.heard()) == 1
    bank.world.advance(2 * SECOND)
    schema, event = bank.last()
    assert schema == "sys/TimerFired@1"
    assert (event["key"], event["due_ns"]) == ("remind", START_NS + 5 * SECOND)
    assert bank.book.timers == 0


def test_timers_fire_in_the_order_they_are_due(bank):
    for seconds in (30, 10, 20):
        bank.ask(("timer.set", {"after_ns": seconds * SECOND, "key": str(seconds)}))
    bank.world.advance(60 * SECOND)
    assert [event["key"] for schema, event in bank.heard() if schema == "sys/TimerFired@1"] == [
        "10",
        "20",
        "30",
    ]


def test_a_time_that_has_passed_fires_in_the_next_beat(bank):
    bank.ask(("timer.set", {"at_ns": 5}))
    bank.world.settle()
    assert bank.last()[0] == "sys/TimerFired@1"


@pytest.mark.parametrize("at_ns", [0, START_NS, START_NS + 10 * SECOND - 1])
def test_a_timer_for_the_past_is_due_when_it_is_set(bank, at_ns):
    bank.world.now_ns += 10 * SECOND
    set_ns = bank.world.now_ns
    bank.ask(("timer.set", {"at_ns": at_ns}))
    decision = bank.records()[-1]
    assert decision.extras["due_ns"] == set_ns
    bank.world.now_ns += SECOND
    bank.world.settle()
    schema, event = bank.last()
    assert schema == "sys/TimerFired@1"
    assert (event["due_ns"], event["fired_ns"]) == (set_ns, set_ns + SECOND)


def test_a_timer_can_be_cancelled(bank):
    bank.ask(("timer.set", {"after_ns": 5 * SECOND}))
    [height] = bank.world.entry("bank/Order", b"o1").get("intents")
    bank.world.control("effect.cancel", intent=height)
    bank.world.advance(10 * SECOND)
    assert bank.last()[1]["status"] == "cancelled"
    assert bank.world.beat().wake is None


def test_too_many_timers_are_denied(bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.gate.TIMERS_OPEN_MAX", 1)
    bank.ask(("timer.set", {"after_ns": SECOND}), ("timer.set", {"after_ns": SECOND}))
    bank.world.settle()
    assert bank.last()[1]["code"] == "kernel.timers_full"


def test_timers_of_a_paused_world_wait(bank):
    bank.ask(("timer.set", {"after_ns": SECOND}))
    bank.world.control("pause")
    bank.world.advance(10 * SECOND)
    assert len(bank.heard()) == 1
    bank.world.control("resume")
    bank.world.advance(1)
    assert bank.last()[0] == "sys/TimerFired@1"


def test_a_cell_with_open_intents_never_expires(make_bank):
    bank = make_bank(order={"retention": {"idle_ns": SECOND}})
    [opening] = bank.charge().opened
    bank.world.advance(3_600 * SECOND)
    assert bank.heard()
    bank.receive(opening)
    bank.world.advance(3_600 * SECOND)
    assert bank.heard() == []


# Schedules


def every(period_ns, **more):
    value = encode({"order": "s"})
    start = START_NS - START_NS % period_ns
    return {
        "tick": {"every_ns": period_ns, "start_ns": start, "event": "bank/Tick@1", "value": value, **more}
    }


def test_an_interval_sends_its_event_again_and_again(make_bank):
    bank = make_bank(schedules=every(MINUTE))
    bank.world.advance(5 * MINUTE)
    assert bank.heard("s") == [["bank/Tick@1", {"order": "s"}]] * 5


def test_a_cron_schedule_follows_its_zone(make_bank):
    schedules = {"daily": {
        "cron": "0 3 * * *", "zone": "Europe/Berlin", "event": "bank/Tick@1", "value": encode({"order": "s"}),
    }}  # fmt: skip
    bank = make_bank(schedules=schedules)
    bank.world.advance(86_400 * SECOND)
    assert len(bank.heard("s")) == 1
    ids = [
        record.id for record in bank.records() if isinstance(record, EventRecord) and record.id is not None
    ]
    due_ns = int(ids[0].removeprefix("schedule:daily:"))
    assert due_ns % (86_400 * SECOND) == 2 * 3_600 * SECOND


@pytest.mark.parametrize(
    ("catch_up", "events"),
    [({"catch_up": "skip"}, 1), ({"catch_up": "once"}, 1), ({"catch_up": "backfill", "limit": 4}, 4)],
)
def test_what_was_missed_is_caught_up_as_the_schedule_says(make_bank, catch_up, events):
    bank = make_bank(schedules=every(MINUTE, **catch_up))
    bank.world.now_ns += 10 * MINUTE
    bank.world.settle()
    assert len(bank.heard("s")) == events
    bank.world.advance(MINUTE)
    assert len(bank.heard("s")) == events + 1


def _due_times(bank):
    ids = [
        record.id for record in bank.records() if isinstance(record, EventRecord) and record.id is not None
    ]
    return [int(each.rpartition(":")[2]) for each in ids]


@pytest.mark.parametrize(("early_ns", "late"), [(1, 0), (0, 1)])
def test_a_run_is_missed_at_the_very_time_of_the_next(make_bank, early_ns, late):
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    first = START_NS + MINUTE - START_NS % MINUTE
    bank.world.now_ns = first + MINUTE - early_ns
    bank.world.settle()
    assert _due_times(bank) == [first + late * MINUTE]


def test_skip_leaves_out_missed_runs_and_sends_the_one_that_is_due_now(make_bank):
    """It sent nothing at all when earlier runs were missed: not even the run that was due now."""
    bank = make_bank(schedules=every(MINUTE, catch_up="skip"))
    first = START_NS + MINUTE - START_NS % MINUTE
    bank.world.now_ns = first + 10 * MINUTE + 5 * SECOND
    bank.world.settle()
    assert _due_times(bank) == [first + 10 * MINUTE]


def test_skip_after_years_away_looks_at_few_due_times(make_bank):
    bank = make_bank(schedules=every(SECOND, catch_up="skip"))
    bank.world.now_ns = START_NS + 10 * 365 * 86_400 * SECOND
    bank.world.settle()
    assert _due_times(bank) == [bank.world.now_ns - bank.world.now_ns % SECOND]


def test_overlap_skip_sends_nothing_while_the_target_is_busy(make_bank):
    bank = make_bank(schedules=every(MINUTE, overlap="skip"))
    [opening] = bank.charge(order="s").opened
    bank.world.advance(3 * MINUTE)
    assert len(bank.heard("s")) == 1
    bank.receive(opening)
    bank.world.advance(MINUTE)
    assert bank.last("s")[0] == "bank/Tick@1"


def test_a_schedule_can_be_paused_and_resumed(make_bank):
    bank = make_bank(schedules=every(MINUTE))
    bank.world.control("schedule.pause", name="tick")
    bank.restore_in_place()
    bank.world.advance(5 * MINUTE)
    assert bank.heard("s") == []
    again = bank.world.control("schedule.pause", name="tick").outcomes[0]
    assert again.error.code == "kernel.schedule_state"
    bank.world.control("schedule.resume", name="tick")
    bank.world.advance(MINUTE)
    assert len(bank.heard("s")) == 1
    unknown = bank.world.control("schedule.pause", name="tock").outcomes[0]
    assert unknown.error.code == "kernel.schedule_unknown"


def test_a_deploy_changes_adds_and_drops_schedules(make_bank, bank_document):
    bank = make_bank(schedules=every(MINUTE))
    bank.world.deploy(bank_document(schedules=every(2 * MINUTE)))
    bank.world.advance(4 * MINUTE)
    assert len(bank.heard("s")) == 2
    bank.world.deploy(bank_document())
    bank.world.advance(10 * MINUTE)
    assert len(bank.heard("s")) == 2
    assert bank.world.beat().wake is None


def test_overlap_buffer_keeps_one_run_until_the_target_is_idle(make_bank):
    """A run that met a busy cell was lost, or came on top of the one before."""
    bank = make_bank(schedules=every(MINUTE, overlap="buffer"))
    [opening] = bank.charge(order="s").opened
    bank.world.advance(3 * MINUTE)
    assert len(bank.heard("s")) == 1
    waiting_ns = bank.book.schedules["tick"].waiting_ns
    bank.restore_in_place()
    assert bank.book.schedules["tick"].waiting_ns == waiting_ns
    assert bank.book.waiting == {"tick"}
    frames = len(bank.world.frames)
    for _ in range(5):
        assert not bank.world.beat().more
    assert len(bank.world.frames) == frames
    assert bank.receive(opening).more
    bank.world.settle()
    assert [name for name, *_ in bank.heard("s")][-1] == "bank/Tick@1"
    ids = [record.id for record in bank.records() if isinstance(record, EventRecord)]
    assert [each for each in ids if str(each).startswith("schedule:")] == [f"schedule:tick:{waiting_ns}"]
    assert bank.book.waiting == set()
    bank.world.advance(MINUTE)
    assert len([name for name, *_ in bank.heard("s") if name == "bank/Tick@1"]) == 2


def test_pausing_a_schedule_drops_the_run_that_waits(make_bank):
    bank = make_bank(schedules=every(MINUTE, overlap="buffer"))
    [opening] = bank.charge(order="s").opened
    bank.world.advance(MINUTE)
    assert bank.book.waiting == {"tick"}
    bank.world.control("schedule.pause", name="tick")
    assert bank.book.waiting == set()
    bank.receive(opening)
    bank.world.settle()
    assert bank.last("s")[0] != "bank/Tick@1"


def test_a_run_waits_while_the_world_is_paused_and_goes_first_then(make_bank):
    bank = make_bank(schedules=every(MINUTE, overlap="buffer"))
    [opening] = bank.charge(order="s").opened
    bank.world.advance(MINUTE)
    waiting_ns = bank.book.schedules["tick"].waiting_ns
    bank.world.control("pause")
    bank.receive(opening)
    bank.world.now_ns += MINUTE
    bank.world.control("resume")
    bank.world.settle()
    ids = [str(record.id) for record in bank.records() if isinstance(record, EventRecord) and record.id]
    assert [each for each in ids if each.startswith("schedule:")] == [
        f"schedule:tick:{waiting_ns}", f"schedule:tick:{waiting_ns + MINUTE}"
    ]  # fmt: skip


def test_a_backfill_over_many_beats_has_its_limit_though_a_run_of_it_waited(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.timers.FRAME_BYTES_ADMIT", 1)  # one event a beat
    bank = make_bank(schedules=every(MINUTE, overlap="buffer", catch_up="backfill", limit=3))
    [opening] = bank.charge(order="s").opened
    bank.world.now_ns += 10 * MINUTE
    bank.world.beat()
    first_ns = bank.book.schedules["tick"].waiting_ns
    bank.restore_in_place()
    bank.receive(opening)  # behind the second, which meets a busy cell while the first waits
    bank.world.settle()
    ids = [each.id for each in bank.records() if isinstance(each, EventRecord) and each.id]
    assert ids == [f"schedule:tick:{first_ns}", f"schedule:tick:{first_ns + 2 * MINUTE}"]
    assert bank.book.schedules["tick"].due_ns == first_ns + 10 * MINUTE


def test_a_buffered_run_stays_where_it_is_in_a_paused_world_whatever_becomes_of_its_cell(make_bank):
    bank = make_bank(schedules=every(MINUTE, overlap="buffer"))
    bank.charge(order="s")
    bank.world.advance(MINUTE)
    bank.world.control("pause")
    bank.world.control("cell.delete", module="bank/Order", key=b"s")
    bank.world.beat()
    bank.restore_in_place()
    bank.world.beat()
    assert bank.book.waiting == {"tick"}
    bank.world.control("resume")
    bank.world.settle()
    assert [name for name, _ in bank.heard("s")] == ["bank/Tick@1"]
    assert bank.book.waiting == set()


def test_a_schedule_that_another_release_armed_is_armed_anew_once(make_bank, monkeypatch):
    """Its stamp is of what a schedule is made of, and that may be more in the next release."""
    bank = make_bank(schedules=every(MINUTE))
    bank.world.advance(MINUTE)
    newer = lambda schedule: b"newer " + fingerprint(schedule)  # noqa: E731 - a name for two uses
    monkeypatch.setattr("cellule.kernel.decide.schedules.fingerprint", newer)
    bank.restore_in_place()
    bank.world.now_ns += MINUTE  # it is due in the first beat, before the schedules are aligned
    bank.world.settle()
    bank.world.advance(3 * MINUTE)
    armed = bank.book.schedules["tick"]
    assert bank.world.beat().wake == armed.due_ns
    ticks = [name for name, _ in bank.heard("s") if name == "bank/Tick@1"]
    assert 4 <= len(ticks) <= 5


def test_a_backfill_sends_what_is_due_this_very_moment(make_bank):
    bank = make_bank(schedules=every(MINUTE, catch_up="backfill", limit=10))
    bank.world.now_ns = START_NS - START_NS % MINUTE + 3 * MINUTE
    bank.world.settle()
    assert len(bank.heard("s")) == 3
    bank.world.now_ns += MINUTE - 1
    bank.world.settle()
    assert len(bank.heard("s")) == 3
