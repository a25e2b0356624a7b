"""Retention: ttl and idle expiry by kernel timers, lazily re-armed."""

from __future__ import annotations

import pytest

from cellule.kernel.items import EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ExpiredRecord, TimerRecord
from cellule.values.cbor import encode

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
