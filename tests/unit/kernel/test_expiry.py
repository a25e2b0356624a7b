"""Retention: ttl and idle expiry by kernel timers, lazily re-armed."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.decide import timers
from cellule.kernel.items import EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ExpiredRecord, TimerRecord
from cellule.kernel.need import drive
from cellule.values.cbor import encode
from tests.support.frames import encode_records

SECOND = 1_000_000_000


@pytest.fixture
def idle(make_world, shop):
    return make_world(shop(Order={"retention": {"idle_ns": 60 * SECOND}}))


def paid(order: str = "o1") -> EventItem:
    return EventItem("shop/Paid@1", encode({"order": order}))


def test_an_idle_cell_is_removed_when_its_time_is_over(idle):
    beat = idle.beat([paid()])
    assert beat.wake == idle.now_ns + 60 * SECOND
    idle.advance(59 * SECOND)
    assert idle.state("shop/Order", b"o1") is not None
    beats = idle.advance(2 * SECOND)
    assert idle.entry("shop/Order", b"o1") is None
    frames = [decode_frame(beat.frame) for beat in beats if beat.frame]
    assert ExpiredRecord in [type(record) for frame in frames for record in frame.records]
    assert beats[-1].wake is None


def test_activity_re_arms_the_timer_only_when_it_is_due(idle):
    idle.beat([paid()])
    idle.advance(30 * SECOND)
    beat = idle.beat([paid()])
    assert TimerRecord not in [type(record) for record in decode_frame(beat.frame).records]
    idle.advance(45 * SECOND)
    assert idle.state("shop/Order", b"o1")["seen"] == 2
    idle.advance(20 * SECOND)
    assert idle.entry("shop/Order", b"o1") is None


def test_a_ttl_counts_from_birth_whatever_happens(make_world, shop):
    world = make_world(shop(Order={"retention": {"ttl_ns": 60 * SECOND}}))
    world.beat([paid()])
    world.advance(50 * SECOND)
    world.beat([paid()])
    world.snapshot()
    world.advance(11 * SECOND)
    assert world.entry("shop/Order", b"o1") is None


def test_a_stopped_cell_is_not_removed(idle):
    idle.send("shop/Paid@1", {"order": "o1"})
    idle.send("shop/Failed@1", {"order": "o1", "why": "x"})
    idle.advance(300 * SECOND)
    assert idle.entry("shop/Order", b"o1").get("status") == "halted"


def test_the_timer_of_a_deleted_cell_is_dropped_and_spares_its_successor(idle):
    idle.beat([paid()])
    idle.advance(20 * SECOND)
    idle.send("shop/Cancelled@1", {"order": "o1"})
    idle.beat([paid()])
    idle.advance(45 * SECOND)
    assert idle.state("shop/Order", b"o1") is not None
    idle.advance(20 * SECOND)
    assert idle.entry("shop/Order", b"o1") is None


def test_many_timers_fire_in_order_and_across_a_snapshot(idle):
    for at in range(50):
        idle.beat([paid(f"o{at}")])
        idle.now_ns += SECOND
    idle.snapshot()
    beats = idle.advance(120 * SECOND)
    gone = [
        expired.key
        for beat in beats
        if beat.frame
        for _, expired in decode_frame(beat.frame).of(ExpiredRecord)
    ]
    assert gone == [b"o%d" % at for at in range(50)]


# A deploy that changes the retention

HOUR = 3_600 * SECOND


def armed(world):
    """What the timers are for."""
    ledger = world.world.ledger
    rows = drive(ledger.timers.scan(b"", None, 1_000), ledger.nodes, world.fetch)
    return [row.what for _, row in rows]


def lives(world, key=b"o1"):
    return world.entry("shop/Order", key) is not None


def retained(shop, **retention):
    return shop(Order={"retention": retention}) if retention else shop()


def test_a_longer_ttl_is_that_of_cells_born_before_it(make_world, shop):
    """Deploying 30 days over 1 hour deleted cells after an hour."""
    world = make_world(retained(shop, ttl_ns=HOUR))
    world.beat([paid()])
    world.advance(HOUR // 2)
    world.deploy(retained(shop, ttl_ns=720 * HOUR))
    world.advance(719 * HOUR)
    assert lives(world)
    world.advance(HOUR // 2)
    assert not lives(world)  # from its birth, not from the deploy


@pytest.mark.parametrize("before", [{}, {"ttl_ns": 720 * HOUR}, {"idle_ns": 10 * HOUR}])
def test_an_added_or_shorter_ttl_reaches_cells_born_before_it(make_world, shop, before):
    world = make_world(retained(shop, **before))
    world.beat([paid("o1")])
    world.advance(2 * HOUR)
    world.beat([paid("o2")])
    world.deploy(retained(shop, ttl_ns=3 * HOUR, **{k: v for k, v in before.items() if k == "idle_ns"}))
    world.beat([paid("o3")])
    world.snapshot()
    world.advance(HOUR - 1)
    assert (lives(world, b"o1"), lives(world, b"o2")) == (True, True)
    world.advance(1)
    assert (lives(world, b"o1"), lives(world, b"o2")) == (False, True)
    world.advance(2 * HOUR)
    assert (lives(world, b"o2"), lives(world, b"o3")) == (False, False)


def test_what_is_over_its_new_time_goes_at_once(make_world, shop):
    world = make_world(shop())
    world.beat([paid()])
    world.advance(10 * HOUR)
    world.deploy(retained(shop, ttl_ns=HOUR))
    world.advance(1)
    assert not lives(world)


def test_a_shorter_idle_time_counts_from_the_last_step_and_leaves_one_timer(make_world, shop):
    world = make_world(retained(shop, idle_ns=10 * HOUR))
    world.beat([paid()])
    world.deploy(retained(shop, idle_ns=2 * HOUR))
    for _ in range(12):  # active through the time of the old timer and of the new one
        world.advance(HOUR)
        world.beat([paid()])
    assert armed(world) == ["idle"]
    world.advance(2 * HOUR - 1)
    assert lives(world)
    world.advance(1)
    assert not lives(world)


def test_a_retention_that_is_taken_away_removes_nothing_and_may_come_back(make_world, shop):
    world = make_world(retained(shop, ttl_ns=HOUR))
    world.beat([paid()])
    world.deploy(shop())
    world.advance(5 * HOUR)
    assert lives(world)
    assert not armed(world)
    world.deploy(retained(shop, ttl_ns=6 * HOUR))
    world.advance(HOUR)
    assert not lives(world)


def test_a_sweep_goes_on_in_later_beats_and_across_a_snapshot(make_world, shop, monkeypatch):
    monkeypatch.setattr(timers, "SWEEP_CELLS_MAX", 3)
    world = make_world(shop())
    world.beat([paid(f"o{number}") for number in range(10)])
    world.deploy(retained(shop, ttl_ns=HOUR))
    world.beat([])
    assert sorted(armed(world)) == ["sweep", "ttl", "ttl", "ttl"]
    world.snapshot()
    world.advance(1)
    assert armed(world) == ["ttl"] * 10
    world.advance(HOUR)
    assert not any(lives(world, f"o{number}".encode()) for number in range(10))


def test_a_cell_that_is_busy_keeps_its_new_timer(make_world, shop):
    world = make_world(shop())
    world.send("shop/Paid@1", {"order": "o1"})
    world.send("shop/Failed@1", {"order": "o1", "why": "x"})
    world.deploy(retained(shop, ttl_ns=HOUR))
    world.advance(3 * HOUR)
    assert world.entry("shop/Order", b"o1").get("status") == "halted"


def test_a_sweep_and_messages_of_the_beat_before_replay_in_their_order(make_world, shop):
    """An expiry, the timers that a sweep arms, and a message to the cell that expired, in one frame."""
    world = make_world(retained(shop, idle_ns=HOUR))
    world.beat([paid("o1")])
    world.advance(HOUR - 1)
    world.deploy(retained(shop, idle_ns=HOUR, ttl_ns=50 * HOUR))
    world.now_ns += 1
    world.beat([paid("o2")])
    world.settle()
    assert (lives(world, b"o1"), lives(world, b"o2")) == (False, True)


def test_a_journal_that_removes_a_cell_at_work_is_corrupted(idle):
    """A halted cell without messages is at work, too."""
    idle.beat([paid()])
    idle.control("cell.halt", module="shop/Order", key=b"o1")
    idle.now_ns += 60 * SECOND
    frame = decode_frame(idle.beat().frame)
    [timer] = frame.records
    assert isinstance(timer, TimerRecord)
    born = idle.entry("shop/Order", b"o1").born
    removed = ExpiredRecord(timer.cause, timer.fired, "shop/Order", b"o1", born)
    lie = encode_records(frame.header, [removed])
    with pytest.raises(Corrupted, match="the expired cell is busy"):
        idle.restored(frames=[*idle.frames[:-1], lie])
