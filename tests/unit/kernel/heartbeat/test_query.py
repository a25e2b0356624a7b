"""Queries: segments, stars, policies, how specific they are."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.kernel.heartbeat.entries import parse_entry
from cellule.kernel.heartbeat.paths import segments_of, tree_key
from cellule.kernel.heartbeat.query import heads_of, parse_query
from cellule.kernel.state.heartbeat_rows import LITERAL, OTHER, head_key


def does_match(query: str, signal: str, match: str = "exact") -> bool:
    return parse_query(query, match).matches(segments_of(signal))


@pytest.mark.parametrize(
    ("query", "signal"),
    [
        ("/a/b", "/a/b"), ("/a/*", "/a/b"), ("/**", "/a/b"), ("/**", "/"),
        ("/a/**", "/a"), ("/a/**/d", "/a/d"),
        ("/a/**/d", "/a/b/c/d"), ("/im*", "/img"), ("/i*g", "/ig"),
        ("/i*g*e", "/image-cage"), ("/***", "/abc"),
        ("/*/**/x", "/a/x/y/x"), ("a", "/a"),
    ],
)  # fmt: skip
def test_a_query_covers_the_whole_signal(query, signal):
    assert does_match(query, signal)


@pytest.mark.parametrize(
    ("query", "signal"),
    [
        ("/a/b", "/a"), ("/a", "/a/b"), ("/a/*", "/a"), ("/a/*", "/a/b/c"),
        ("/a/**/d", "/a/b"), ("/i*g", "/i/g"),
        ("/i*g", "/img/x"), ("/A", "/a"), ("/*", "/"), ("/***", "/a/b"),
    ],
)  # fmt: skip
def test_a_query_that_does_not_cover_the_signal_does_not_match(query, signal):
    assert not does_match(query, signal)


def test_a_prefix_lets_the_signal_go_on_and_needs_all_of_the_query():
    assert does_match("/a/*", "/a/b/c/d", "prefix")
    assert does_match("/a/**/d", "/a/b/d/c", "prefix")
    assert not does_match("/a/b", "/a", "prefix")
    assert not does_match("/a/b", "/a/bc", "prefix")


@pytest.mark.parametrize("text", ["", "/"])
@pytest.mark.parametrize("signal", ["/", "/a", "/a/b"])
def test_the_empty_query_matches_every_signal(text, signal):
    assert does_match(text, signal, "exact")


@pytest.mark.parametrize(
    ("query", "points", "head"),
    [
        ("/a/b", 4, ("a", "b")), ("/a/*", 2, ("a",)), ("/a/b*/c", 5, ("a",)), ("/**/a", 2, ()), ("/", 0, ()),
        ("/a/***", 3, ("a",)),
    ],
)  # fmt: skip
def test_specificity_counts_literals_twice_and_inner_stars_once(query, points, head):
    parsed = parse_query(query)
    assert (parsed.specificity, parsed.head) == (points, head)
    assert parsed.is_literal_headed is bool(head)


def test_the_policy_does_not_change_how_specific_a_query_is():
    assert parse_query("/a/b*", "prefix").specificity == parse_query("/a/b*", "exact").specificity == 3


def test_the_heads_of_a_signal_are_all_paths_to_it():
    assert heads_of(("a", "b")) == ["/", "/a", "/a/b"]


@pytest.mark.parametrize(
    ("query", "match", "head", "kind"),
    [
        ("/a", "exact", "/a", LITERAL), ("/a/b", "exact", "/a/b", LITERAL), ("/a", "prefix", "/a", OTHER),
        ("/a/*", "exact", "/a", OTHER), ("/**", "exact", "/", OTHER), ("", "exact", "/", OTHER),
    ],
)  # fmt: skip
def test_only_an_exact_query_without_stars_is_listed_among_those_of_one_signal(query, match, head, kind):
    """The list is stored: another key for an entry would not be found by those who wrote this one."""
    entry = parse_entry(7, {"name": "x", "module": "t/x", "query": query, "match": match})
    assert head_key(entry, 7) == tree_key(head) + b"\0" + kind + (7).to_bytes(8, "big")


@pytest.mark.parametrize("policy", ["regex", "", None, 1])
def test_an_unknown_policy_is_refused(policy):
    with pytest.raises(Rejected) as caught:
        parse_query("/a", policy)
    assert caught.value.code == "heartbeat.match"


def test_many_stars_take_no_exponential_time():
    """A matcher that tries every run of every star would not come back."""
    assert not does_match("/" + "*a" * 200 + "b", "/" + "a" * 3_000)
    assert not does_match("/**/a" * 30 + "/b", "/a" * 100)


def test_a_module_whose_name_no_record_can_hold_is_refused():
    with pytest.raises(Rejected, match="it is no UTF-8"):
        parse_entry(0, {"name": "x", "module": "t/\ud800", "query": "/a"})
