"""Cron lines and intervals: when they are due, around clock changes too, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.values.calendar import Cron, Every, compile_schedule, due_between, preview, zone_named

SECOND = 1_000_000_000
DAY = 86_400 * SECOND


def ns(text):
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


def shown(line, zone, after, count):
    return [upcoming.local for upcoming in preview(Cron.parse(line, zone), ns(after), count)]


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("30 9 * * MON-FRI", "UTC", "2026-01-02T09:30:00+00:00", ["2026-01-05T09:30:00+00:00"]),
        ("@daily", "UTC", "2026-01-01T00:00:00+00:00", ["2026-01-02T00:00:00+00:00"]),
        ("@Hourly", "UTC", "2026-01-01T00:59:59+00:00", ["2026-01-01T01:00:00+00:00"]),
        ("0 0 L * *", "UTC", "2026-02-01T00:00:00+00:00", ["2026-02-28T00:00:00+00:00"]),
        ("0 0 * * 5#3", "UTC", "2026-01-01T00:00:00+00:00", ["2026-01-16T00:00:00+00:00"]),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00+00:00",
         ["2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"]),
        ("0 0 13 * 5", "UTC", "2026-01-01T00:00:00+00:00",
         ["2026-01-02T00:00:00+00:00", "2026-01-09T00:00:00+00:00", "2026-01-13T00:00:00+00:00"]),
        ("*/20 6-7 1 jan,JUL *", "Europe/Berlin", "2026-01-01T06:30:00+01:00",
         ["2026-01-01T06:40:00+01:00", "2026-01-01T07:00:00+01:00"]),
    ],
)  # fmt: skip
def test_a_line_is_due(line, zone, after, expected):
    assert shown(line, zone, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
         ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00",
         ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
         ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]),
        ("0 0 * * *", "America/Havana", "2026-03-07T12:00:00-05:00",
         ["2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
         ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
    ],
)  # fmt: skip
def test_a_fixed_time_that_the_clocks_skip_is_made_up_once_after_the_gap(line, zone, after, expected):
    assert shown(line, zone, after, 2) == expected


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00",
         ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00",
         ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00",
         ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]),
    ],
)  # fmt: skip
def test_a_fixed_time_that_the_clocks_show_twice_is_due_the_first_time_only(line, zone, after, expected):
    assert shown(line, zone, after, 2) == expected


def test_a_fixed_time_is_not_due_again_when_asked_inside_the_repeated_hour():
    """Going on from local time gave 02:30 of the first pass again, a moment in the past."""
    assert shown("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", 1) == [
        "2026-10-26T02:30:00+01:00"
    ]


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:15:00+01:00",
         ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T02:15:00+02:00",
         ["2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00",
          "2026-10-25T03:00:00+01:00"]),
        ("0 * * * *", "America/New_York", "2026-11-01T00:30:00-04:00",
         ["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"]),
        ("*/15 * * * *", "Australia/Lord_Howe", "2026-04-05T01:30:00+11:00",
         ["2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30",
          "2026-04-05T02:00:00+10:30"]),
    ],
)  # fmt: skip
def test_a_line_with_a_star_follows_real_time(line, zone, after, expected):
    assert shown(line, zone, after, len(expected)) == expected


CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00:00+00:00"),
    ("Europe/Berlin", "2026-10-25T01:00:00+00:00"),
    ("America/New_York", "2026-11-01T06:00:00+00:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00+00:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30:00+00:00"),
    ("UTC", "2026-06-01T00:00:00+00:00"),
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CHANGES),
    st.sampled_from(
        ["30 2 * * *", "*/20 * * * *", "0 0-4 * * *", "15,45 1,2,3 * * *", "* 2 * * *", "0 */2 * * *"]
    ),
    st.integers(-5 * 3_600, 5 * 3_600),
    st.integers(0, SECOND - 1),
)
def test_what_is_due_does_not_depend_on_when_one_asks(change, line, seconds, fraction):
    zone, moment = change
    cron = Cron.parse(line, zone)
    after_ns = ns(moment) + seconds * SECOND + fraction

    series = due_between(cron, ns(moment) - 2 * DAY, ns(moment) + 3 * DAY, 10_000)

    assert series == sorted(set(series))
    assert cron.next_due(after_ns) == min(due_ns for due_ns in series if due_ns > after_ns)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata"]), st.integers(0, 60 * 365))
def test_a_due_moment_shows_the_fields_of_its_line(zone, days):
    cron = Cron.parse("5 7 * * *", zone)

    due_ns = cron.next_due(days * DAY)

    local = datetime.fromtimestamp(due_ns // SECOND, ZoneInfo(zone))
    assert (local.hour, local.minute, local.second, due_ns % SECOND) == (7, 5, 0, 0)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("* * * *", "cron_shape", "has 4 fields"),
        ("* * * * * *", "cron_shape", "has 6 fields"),
        ("", "cron_shape", "has 0 fields"),
        ("1" * 1_001, "cron_shape", "too long"),
        ("60 * * * *", "cron_field", "The minute '60'"),
        ("*/0 * * * *", "cron_field", "The minute '*/0'"),
        ("1,,2 * * * *", "cron_field", "The minute '1,,2'"),
        ("0 24 * * *", "cron_field", "The hour '24'"),
        ("0 5-1 * * *", "cron_field", "The hour '5-1'"),
        ("0 0 32 * *", "cron_field", "The day of month '32'"),
        ("0 0 * FOO *", "cron_field", "The month 'FOO'"),
        ("0 0 * * MON#6", "cron_field", "The day of week 'MON#6'"),
        ("0 0 * * ?", "cron_field", "SUN to SAT"),
        ("é * * * *", "cron_field", "The minute 'é'"),
        ("@dayly", "cron_alias", "@daily"),
        ("@reboot", "cron_alias", "@daily"),
        ("0 0 30 2 *", "cron_never", "never due"),
        ("0 0 31 4,6 *", "cron_never", "never due"),
    ],
)
def test_a_wrong_line_is_refused_naming_the_field(line, code, says):
    with pytest.raises(Rejected) as caught:
        compile_schedule(line, "UTC")

    assert caught.value.code == f"values.{code}"
    assert says in str(caught.value)


def parsed(line):
    try:
        return Cron.parse(line)
    except Rejected as refused:
        return refused


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text(alphabet="0123456789*/-,#LWMONJA@? ", max_size=6), min_size=4, max_size=6).map(" ".join)
)
def test_any_line_is_refused_or_due(line):
    found = parsed(line)

    if isinstance(found, Cron):
        assert found.next_due(0) > 0
    else:
        assert found.code.startswith("values.cron_")


@pytest.mark.parametrize(
    ("zone", "says"),
    [
        ("Europe/Berln", "Did you mean Europe/Berlin"),
        ("europe/berlin", "Did you mean Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("../../etc/passwd", "like Europe/Berlin"),
        ("", "like Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_refused_with_names_like_it(zone, says):
    with pytest.raises(Rejected) as caught:
        Cron.parse("@daily", zone)

    assert caught.value.code == "values.zone_unknown"
    assert says in str(caught.value)


def test_zones_do_not_come_from_the_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONTZPATH", str(tmp_path))

    assert str(zone_named("Europe/Paris")) == "Europe/Paris"
    assert zone_named("UTC") is UTC


@pytest.mark.parametrize(
    ("after", "expected"), [(-100, 3), (2, 3), (3, 13), (12, 13), (13, 23), (2**40, 2**40 + 7)]
)
def test_an_interval_is_due_at_its_start_and_after_every_period(after, expected):
    assert Every(10, 3).next_due(after) == expected


def test_an_interval_ends_with_time():
    assert Every(2**62).next_due(2**63 - 1) is None


@pytest.mark.parametrize("period", [0, -1, 2**64])
def test_an_interval_that_cannot_repeat_is_refused(period):
    with pytest.raises(Rejected) as caught:
        Every(period)

    assert caught.value.code == "values.interval_invalid"


def test_moments_between_two_times_exclude_the_first_and_include_the_last():
    assert due_between(Every(10), 10, 40, 100) == [20, 30, 40]
    assert due_between(Every(10), 10, 40, 2) == [20, 30]
    assert due_between(Every(10), 40, 40, 2) == []
    assert due_between(Every(10), 0, 100, 0) == []


def test_a_preview_of_an_interval_is_in_utc():
    assert preview(Every(DAY), 0, 1) == [(DAY, "1970-01-02T00:00:00+00:00")]
