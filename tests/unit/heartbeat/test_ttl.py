"""Until when a message is kept, a sentence of the rules for each test."""

from __future__ import annotations

import pytest

from cellule.heartbeat.mailboxes.ttl import Ttl, TtlContext, TtlSettings, TtlSpec, resolve

NOW = TtlContext(issued_beat=10, issued_unix_ns=1_000, current_beat=12, current_unix_ns=1_200)


def resolved(*specs, context=NOW, settings=None, published=None, intervals=()):
    padded = [*specs, None, None, None][:3]
    times = {} if published is None else published
    return resolve(padded, context, settings or TtlSettings(), times.get, list(intervals))


def test_no_spec_is_no_deadline():
    assert resolved() == Ttl()
    assert resolved(TtlSpec(), None, TtlSpec()) == Ttl()


def test_the_first_spec_that_mentions_a_field_decides_it_and_each_field_apart():
    ttl = resolved(TtlSpec(beats=3), TtlSpec(beats=9, unix_ns=50), TtlSpec(unix_ns=70))
    assert ttl == Ttl(False, 13, "message", 1_050, "mailbox")


def test_0_is_no_limit_and_shadows_what_stands_below():
    assert resolved(TtlSpec(beats=0, unix_ns=0), TtlSpec(beats=5, unix_ns=5)) == Ttl()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_forever_in_any_spec_wins(place):
    specs = [TtlSpec(beats=1, unix_ns=1)] * 3
    specs[place] = TtlSpec(forever=True)
    assert resolved(*specs) == Ttl(forever=True)
    assert resolved(*specs, context=TtlContext()) == Ttl(forever=True)


def test_beats_count_from_the_issued_beat_else_from_the_current_one():
    assert resolved(TtlSpec(beats=2)).beat_deadline == 12
    assert resolved(TtlSpec(beats=2), context=NOW._replace(issued_beat=None)).beat_deadline == 14
    assert resolved(TtlSpec(beats=2), context=NOW._replace(issued_beat=0)).beat_deadline == 2


def test_beats_fail_where_no_beat_is_known():
    assert resolved(TtlSpec(beats=2), context=TtlContext(current_unix_ns=5)) is None


def test_wall_time_counts_from_the_issued_time_else_the_told_time_of_the_beat_else_from_now():
    spec = TtlSpec(unix_ns=7)
    assert resolved(spec, published={10: 900}).wall_deadline == 1_007
    unknown = NOW._replace(issued_unix_ns=None)
    assert resolved(spec, context=unknown, published={10: 900}).wall_deadline == 907
    assert resolved(spec, context=unknown, published={12: 900}).wall_deadline == 1_207
    assert (
        resolved(spec, context=unknown._replace(issued_beat=None), published={10: 9}).wall_deadline == 1_207
    )


@pytest.mark.parametrize(
    "context",
    [
        TtlContext(issued_beat=10, current_beat=12),
        TtlContext(issued_unix_ns=0),
        TtlContext(current_unix_ns=0),
    ],
)
def test_wall_time_fails_where_its_origin_is_0_or_unknown(context):
    assert resolved(TtlSpec(beats=1, unix_ns=7), context=context._replace(current_beat=1)) is None


def test_wall_time_alone_projects_the_beat_of_the_deadline_rounded_up():
    ttl = resolved(None, TtlSpec(unix_ns=500), intervals=[100, 100])  # 300 ns are left
    assert ttl == Ttl(False, 15, None, 1_500, "mailbox", True, 100)
    assert resolved(TtlSpec(unix_ns=501), intervals=[100]).beat_deadline == 16


def test_a_deadline_in_the_past_is_projected_onto_the_current_beat():
    assert resolved(TtlSpec(unix_ns=200), intervals=[100]).beat_deadline == 12
    assert resolved(TtlSpec(unix_ns=1), intervals=[100]).beat_deadline == 12


def test_a_projection_is_capped_at_the_lookahead_and_0_is_no_cap():
    spec = TtlSpec(unix_ns=100_000)
    assert resolved(spec, intervals=[1]).beat_deadline == 12 + 32
    assert resolved(spec, intervals=[1], settings=TtlSettings(lookahead=0)).beat_deadline == 12 + 99_800


def test_a_projection_takes_the_newest_samples_and_0_is_all():
    spec, intervals = TtlSpec(unix_ns=500), [1_000, *[10] * 8]
    assert resolved(spec, intervals=intervals).interval_ns == 10
    assert resolved(spec, intervals=intervals, settings=TtlSettings(samples=0)).interval_ns == 120
    assert resolved(spec, intervals=[5, 20], settings=TtlSettings(samples=1)).interval_ns == 20


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (TtlSpec(beats=1, unix_ns=500), {}),
        (TtlSpec(unix_ns=500), {"settings": TtlSettings(wallclock_disabled=True)}),
        (TtlSpec(unix_ns=500), {"context": NOW._replace(current_beat=None)}),
        (TtlSpec(unix_ns=500), {"context": NOW._replace(current_unix_ns=None)}),
        (TtlSpec(unix_ns=500), {"intervals": []}),
        (TtlSpec(unix_ns=500), {"intervals": [0, 0]}),
        (TtlSpec(beats=5), {}),
    ],
)
def test_nothing_is_projected_without_reason_or_ground(spec, changes):
    ttl = resolved(spec, **{"intervals": [100], **changes})
    assert (ttl.projected, ttl.interval_ns) == (False, None)


def test_a_beat_ttl_of_0_leaves_room_for_a_projection():
    ttl = resolved(TtlSpec(beats=0), TtlSpec(unix_ns=300), intervals=[100])
    assert ttl == Ttl(False, 13, None, 1_300, "mailbox", True, 100)
