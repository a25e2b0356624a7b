"""The wall clock of beats and the intervals between them."""

from __future__ import annotations

import pytest

from cellule.kernel.heartbeat.spacing import (
    INTERVALS_MAX,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Spacing,
    may_publish,
    mean_of,
)


def told(*beats: tuple[int, int], window: int = WINDOW_DEFAULT) -> Spacing:
    spacing = Spacing(window)
    for beat, ns in beats:
        spacing.add(beat, ns)
    return spacing


def test_the_first_beat_has_no_interval():
    assert told((5, 100)).intervals == []


def test_an_interval_stands_under_the_later_beat():
    assert told((5, 100), (9, 150)).intervals == [(9, 50)]


def test_a_clock_that_goes_back_gives_no_negative_interval_and_counts_from_there():
    assert told((1, 500), (2, 300), (3, 310)).intervals == [(2, 0), (3, 10)]


def test_an_earlier_beat_told_later_gives_no_interval_and_nothing_counts_from_it():
    assert told((5, 100), (2, 40), (6, 130)).intervals == [(6, 30)]


def test_only_the_newest_beats_of_the_window_are_kept():
    assert told((1, 0), (2, 1), (3, 3), (4, 6), window=2).intervals == [(3, 2), (4, 3)]


def test_a_smaller_window_trims_at_once_and_a_larger_one_brings_nothing_back():
    spacing = told((1, 0), (2, 1), (3, 3))
    assert spacing.set_window(1)
    assert spacing.intervals == [(3, 2)]
    assert spacing.set_window(9)
    assert spacing.intervals == [(3, 2)]


def test_a_window_wider_than_the_limit_keeps_as_many_as_the_limit():
    spacing = told(*((beat, beat) for beat in range(INTERVALS_MAX + 9)), window=10**9)
    assert spacing.window == 10**9
    assert [beat for beat, _ in spacing.intervals] == list(range(9, INTERVALS_MAX + 9))


@pytest.mark.parametrize("window", [0, -1, WINDOW_MAX + 1])
def test_a_window_that_cannot_be_is_refused_and_nothing_changes(window):
    spacing = told((1, 0), (2, 1))
    assert not spacing.set_window(window)
    assert (spacing.window, spacing.intervals) == (WINDOW_DEFAULT, [(2, 1)])


def test_the_same_time_again_may_be_told_and_another_may_not():
    assert may_publish(None, 5)
    assert may_publish(5, 5)
    assert not may_publish(5, 6)
    assert not may_publish(None, -1)
    assert may_publish(None, 0)


def test_the_mean_is_of_the_newest_samples_in_whole_ns():
    assert mean_of([1, 10, 11], 2) == 10
    assert mean_of([1, 10, 11], 0) == 7
    assert mean_of([1, 10, 11], 99) == 7
    assert mean_of([], 8) is None
    assert mean_of([0, 0], 8) is None
    assert told((1, 0), (2, 4)).mean(8) == 4
