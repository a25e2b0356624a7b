"""Rates and pauses: pure functions of time and chance."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellule.host.outbox.backoff import jitter_ns, seconds_of
from cellule.host.outbox.rate_limit import RateLimit

SECOND = 1_000_000_000


@given(st.floats(0.01, 10_000), st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=60))
def test_a_bucket_never_lets_more_through_than_its_rate_and_a_small_burst(rate, gaps):
    bucket, now_ns, taken = RateLimit(rate, 0), 0, []
    for gap in gaps:
        now_ns += gap
        if bucket.take(now_ns):
            taken.append(now_ns)
    for place, first in enumerate(taken):
        for count, last in enumerate(taken[place:]):
            assert count <= (last - first) / SECOND * rate + max(1, rate * 0.1) + 0.001


@given(st.floats(0.01, 10_000), st.integers(0, 10 * SECOND))
def test_waiting_as_long_as_a_bucket_says_is_enough(rate, now_ns):
    bucket = RateLimit(rate, 0)
    while bucket.take(now_ns):
        pass
    wait_ns = bucket.wait_ns(now_ns)
    assert wait_ns > 0
    assert bucket.take(now_ns + wait_ns)


def test_without_a_rate_nothing_waits():
    bucket = RateLimit(None, 5)
    assert all(bucket.take(5) for _ in range(1_000))
    assert bucket.wait_ns(5) == 0


@given(st.floats(0, 100), st.floats(0, 1_000), st.integers(0, 10**12), st.binary(min_size=8, max_size=8))
def test_a_pause_lies_between_the_base_and_three_times_the_last_and_under_the_cap(
    base, more, last_ns, chance
):
    most = base + more
    drawn = jitter_ns(int(base * SECOND), int(most * SECOND), last_ns, chance)
    assert min(int(base * SECOND), int(most * SECOND)) <= drawn <= int(most * SECOND)
    assert drawn <= 3 * max(last_ns, int(base * SECOND))


def test_pauses_differ_with_chance_and_begin_at_the_base():
    assert jitter_ns(SECOND, 60 * SECOND, 0, bytes(8)) == SECOND
    assert jitter_ns(SECOND, 60 * SECOND, 0, b"\xff" * 8) > 2 * SECOND
    assert jitter_ns(SECOND, 60 * SECOND, 30 * SECOND, b"\xff" * 8) == 60 * SECOND


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (1.5, 1.5), (-5, 0.0), (-(10**400), 0.0), (10**400, 86_400.0), (float("inf"), 86_400.0),
        (timedelta(minutes=2), 120.0), (timedelta.max, 86_400.0), (timedelta.min, 0.0),
        (float("nan"), None), ("5", None), (True, None), (None, None),
    ],
)  # fmt: skip
def test_what_the_other_side_asks_for_is_kept_within_reason(asked, given):
    assert seconds_of(asked) == given


def test_who_completes_an_effect_later_may_take_longer_than_any_pause():
    """Three days, as numbers, became one: the longest pause between attempts was the bound of both."""
    assert seconds_of(3 * 86_400, 366 * 86_400) == 3 * 86_400
