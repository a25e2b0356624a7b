"""Buckets of deadlines and what is due."""

from __future__ import annotations

from cellule.heartbeat.mailboxes.expiry import Plan, plan, record
from cellule.heartbeat.mailboxes.ttl import Ttl


def test_a_message_stands_in_the_buckets_of_its_deadlines():
    beats, wall = {}, {}
    record(beats, wall, "a", Ttl(beat_deadline=5))
    record(beats, wall, "b", Ttl(wall_deadline=70))
    record(beats, wall, "c", Ttl(beat_deadline=5, wall_deadline=80))
    record(beats, wall, "d", Ttl(forever=True))
    assert (beats, wall) == ({5: {"a", "c"}}, {70: {"b"}, 80: {"c"}})


def test_recording_again_is_harmless_and_another_deadline_adds_a_bucket():
    beats, wall = {}, {}
    for deadline in (5, 5, 7):
        record(beats, wall, "a", Ttl(beat_deadline=deadline))
    assert (beats, wall) == ({5: {"a"}, 7: {"a"}}, {})


def test_what_is_due_comes_in_the_order_of_deadlines_and_then_of_ids():
    beats, wall = {12: {"b", "a"}, 3: {"z"}, 13: {"c"}}, {100: {"x"}, 50: {"y"}}
    assert plan(beats, wall, 12, 100) == Plan(
        [("z", 3), ("a", 12), ("b", 12)], [("y", 50), ("x", 100)], True, False
    )


def test_nothing_is_due_where_beat_or_time_is_unknown_and_its_buckets_are_future():
    assert plan({1: {"a"}}, {1: {"a"}}, None, None) == Plan([], [], True, True)
    assert plan({}, {}, None, None) == Plan([], [], False, False)
    assert plan({1: {"a"}}, {1: {"a"}}, None, 5) == Plan([], [("a", 1)], True, False)
