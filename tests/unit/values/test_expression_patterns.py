"""Regular expressions of `matches`: what they match, what they cost, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.values.expressions.limits import PATTERN_SIZE_MAX
from cellule.values.expressions.pattern import Pattern, PatternError, PatternTooLarge

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\W", r"\b", r"\B", "^", "$", "[b-d1]", "()"]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}?", "+?"])).map(
            lambda part: f"(?:{part[0]}){part[1]}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(PATTERNS, st.lists(st.text("abc1_ é", min_size=1, max_size=7), min_size=1, max_size=4))
def test_a_pattern_finds_what_pythons_finds(pattern, texts):
    compiled = Pattern(pattern)

    for text in texts:
        assert compiled.is_in(text) == bool(re.search(pattern, text, re.ASCII)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"^\d{3}-\d{4}$", "555-1234", True), (r"^\d{3}-\d{4}$", "555-1234\n", False), (r"\d", "٣", False),
        (r"\w", "é", False), ("(?i)straSSE", "STRASSE", True), ("(?i)é", "É", True), ("(?i:a)b", "Ab", True),
        ("(?i:a)b", "AB", False), ("a(?i)b|c", "aB", True), ("a(?i)b|c", "C", True), (".", "\n", False),
        ("(?s).", "\n", True), ("^b$", "a\nb\nc", False), ("(?m)^b$", "a\nb\nc", True), (r"\Ab\z", "b", True),
        (r"[\d.-]+$", "1.-", True), ("[]a]", "]", True), ("[^]a]", "]", False), (r"[\]\\]", "\\", True),
        ("[[:alpha:]]", "1", False), ("[[:^digit:]_]", "1", False), (r"\x41\x{1F431}", "A🐱", True),
        (r"\.", "a", False),
        ("(?P<year>a)(?<b>b)", "ab", True), ("(a*)*b", "aab", True), ("(|a)+$", "aaa", True), ("x{0}y",
        "y", True),
        ("a{2,}", "ba", False), ("a{2,}", "baaa", True),
    ],
)  # fmt: skip
def test_a_pattern_matches(pattern, text, expected):
    assert Pattern(pattern).is_in(text) is expected


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[a", "[b-a]", "*a", "a**", "a{2}{3}", "a{3,2}", "((a{20}){20}){20}", "{2}", "(?=a)",
     "(?<!a)", "(?", r"\1",
     r"\p{L}", "\\", "[[:nope:]]", r"\x{110000}", "(?x)a"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["a{999}", "(a{20}){40}", "a" * PATTERN_SIZE_MAX + "b"],
)
def test_a_pattern_that_is_too_large_is_refused_at_once(pattern):
    with pytest.raises(PatternTooLarge):
        Pattern(pattern)


def test_a_pattern_that_makes_other_engines_try_for_years_takes_one_walk():
    assert Pattern("^(a+)+$").is_in("a" * 5_000 + "b") is False
    assert Pattern("(x+x+)+y").is_in("x" * 5_000) is False
