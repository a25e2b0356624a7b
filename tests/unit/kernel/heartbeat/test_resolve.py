"""The order in which candidates run."""

from __future__ import annotations

from typing import NamedTuple

from cellule.kernel.heartbeat.query import Query, parse_query
from cellule.kernel.heartbeat.resolve import best_of, in_order


class Entry(NamedTuple):
    number: int
    name: str
    query: Query
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def entry(number, name, query="/s", before=(), after=()):
    return Entry(number, name, parse_query(query), before, after)


def numbers(*candidates):
    ordered = in_order(candidates)
    return None if ordered is None else [each.number for each in ordered]


def test_the_more_specific_runs_first_then_the_name_then_the_registration():
    assert numbers(
        entry(5, "b"), entry(4, "b"), entry(3, "a"), entry(2, "z", "/s*"), entry(1, "z", "/s/**/t")
    ) == [1, 3, 4, 5, 2]  # fmt: skip


def test_names_order_as_byte_strings():
    assert numbers(entry(1, "é"), entry(2, "z"), entry(3, "Z")) == [3, 2, 1]


def test_before_runs_ahead_and_after_runs_behind():
    assert numbers(entry(1, "a", after=("b",)), entry(2, "b", after=("c",)), entry(3, "c")) == [3, 2, 1]
    assert numbers(entry(1, "a"), entry(2, "b", before=("a",))) == [2, 1]


def test_names_that_are_no_candidates_are_ignored():
    assert numbers(entry(1, "a", before=("ghost",), after=("other",))) == [1]


def test_a_constraint_said_twice_counts_once():
    assert numbers(entry(1, "a", after=("b", "b")), entry(2, "b", before=("a",))) == [2, 1]


def test_a_constraint_on_a_shared_name_goes_to_the_first_with_a_literal_head():
    first, later = entry(1, "twin", "/*"), entry(2, "twin", "/s")
    assert numbers(first, later, entry(3, "x", after=("twin",), query="/s/t")) == [2, 3, 1]


def test_a_constraint_on_a_shared_name_goes_to_the_first_registered_of_equal_heads():
    assert numbers(entry(1, "twin"), entry(2, "twin"), entry(3, "x", "/s/t", after=("twin",))) == [1, 3, 2]


def test_each_of_a_shared_name_brings_its_own_constraints():
    assert numbers(entry(1, "twin"), entry(2, "twin", before=("a",)), entry(3, "a")) == [1, 2, 3]
    assert numbers(entry(1, "twin"), entry(2, "twin", after=("z",)), entry(3, "z")) == [1, 3, 2]


def test_a_cycle_drops_the_whole_result():
    assert numbers(entry(1, "a", after=("b",)), entry(2, "b", after=("a",)), entry(3, "free")) is None


def test_naming_oneself_is_a_cycle():
    assert numbers(entry(1, "a", before=("a",))) is None


def test_the_second_of_a_shared_name_may_name_it():
    """The constraint goes to the first of them, which is not the one that said it."""
    assert numbers(entry(1, "twin"), entry(2, "twin", after=("twin",))) == [1, 2]


def test_nothing_resolves_to_nothing():
    assert numbers() == []
    assert best_of([]) is None


def test_a_bound_target_takes_the_most_specific_of_a_name_then_the_first_registered():
    assert best_of([entry(1, "a", "/**"), entry(3, "a"), entry(2, "a")]).number == 2
