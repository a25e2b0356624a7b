"""Paths, queries and order against what the rules say, written in the plainest way there is."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cellule.kernel.heartbeat import paths
from cellule.kernel.heartbeat.query import Query, parse_query
from cellule.kernel.heartbeat.resolve import in_order

SEGMENT = st.text(
    st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=4
) | st.sampled_from(["a", "b", "a\0", "\0", "ab", "*", "x" * 300])  # fmt: skip
PATH = st.lists(SEGMENT, max_size=4).map(paths.path_of)


@given(PATH, PATH)
def test_keys_order_as_the_byte_strings_of_segments_do(one, other):
    def plain(path):
        return [segment.encode() for segment in paths.segments_of(path)]

    if not paths.is_long(one) and not paths.is_long(other):
        assert (paths.tree_key(one) < paths.tree_key(other)) == (plain(one) < plain(other))
    assert (paths.tree_key(one) == paths.tree_key(other)) == (one == other)


@given(PATH)
def test_a_key_tells_its_path(path):
    found = paths.path_of_key(paths.tree_key(path))
    assert found == (None if paths.is_long(path) else path)


@given(PATH, PATH)
def test_a_prefix_holds_all_below_and_nothing_else_while_keys_are_short(path, other):
    key = paths.tree_key(other)
    if paths.is_below(other, path):
        assert key.startswith(paths.tree_prefix(path))
    elif not paths.is_long(path) and not paths.is_long(other):
        assert not key.startswith(paths.tree_prefix(path))


def covers(pattern, parts, star, fits):
    """Whether a pattern covers all parts, by every way there is."""
    if not pattern:
        return not parts
    if pattern[0] == star:
        return any(covers(pattern[1:], parts[taken:], star, fits) for taken in range(len(parts) + 1))
    return bool(parts) and fits(pattern[0], parts[0]) and covers(pattern[1:], parts[1:], star, fits)


def segment_fits(pattern, segment):
    return covers(pattern, segment, "*", str.__eq__)


STARRED = st.lists(
    st.text("ab*", min_size=1, max_size=4) | st.sampled_from(["*", "**"]), max_size=5
).map(paths.path_of)  # fmt: skip
PLAIN = st.lists(st.text("ab", min_size=1, max_size=4), max_size=5).map(paths.path_of)


@given(STARRED, PLAIN, st.sampled_from(["exact", "prefix"]))
def test_a_query_matches_what_the_rules_say(query, signal, match):
    pattern, parts = paths.segments_of(query), paths.segments_of(signal)
    allowed = [parts] if match == "exact" else [parts[:count] for count in range(len(parts) + 1)]
    expected = not pattern or any(covers(pattern, each, "**", segment_fits) for each in allowed)
    assert parse_query(query, match).matches(parts) is expected


@given(STARRED, PLAIN, st.sampled_from(["exact", "prefix"]))
def test_a_signal_that_matches_begins_with_the_head_of_the_query(query, signal, match):
    parsed, parts = parse_query(query, match), paths.segments_of(signal)
    if parsed.matches(parts):
        assert parts[: len(parsed.head)] == parsed.head


class Entry(NamedTuple):
    number: int
    name: str
    query: Query
    before: tuple[str, ...]
    after: tuple[str, ...]


NAME = st.sampled_from("abcd")
ENTRY = st.tuples(
    NAME, st.sampled_from(["/s", "/s*", "/*", "/**"]).map(parse_query),
    st.lists(NAME, max_size=2).map(tuple), st.lists(NAME, max_size=2).map(tuple),
)  # fmt: skip
ENTRIES = st.lists(ENTRY, max_size=7).map(
    lambda rows: [Entry(number, *row) for number, row in enumerate(rows)]
)


def plainly_ordered(entries):
    """Take, again and again, the best of those that wait for nobody who is left."""
    first = {}
    for entry in sorted(entries, key=lambda each: (not each.query.is_literal_headed, each.number)):
        first.setdefault(entry.name, entry.number)
    edges = {
        *((entry.number, first[name]) for entry in entries for name in entry.before if name in first),
        *((first[name], entry.number) for entry in entries for name in entry.after if name in first),
    }
    left, order = {entry.number: entry for entry in entries}, []
    while left:
        ready = [each for each in left.values() if not any(b == each.number and a in left for a, b in edges)]
        if not ready:
            return None
        best = min(ready, key=lambda each: (-each.query.specificity, each.name, each.number))
        order.append(left.pop(best.number).number)
    return order


@given(ENTRIES, st.randoms())
def test_candidates_run_in_the_order_of_the_rules_however_they_are_given(entries, random):
    shuffled = random.sample(entries, len(entries))
    ordered = in_order(shuffled)
    assert (None if ordered is None else [each.number for each in ordered]) == plainly_ordered(entries)
