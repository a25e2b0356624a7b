"""Queries: which signals an enzyme is registered for.

A segment of a query is literal, `*` (one segment), `**` (any number of segments), or holds a `*` that stands
for any run of characters. Policy *exact* covers the whole signal, *prefix* lets the signal go on. The empty
query matches every signal. Queries match signals, never targets.

Matching takes time in proportion to query times signal, whatever the stars: both levels try a star's shortest
run first, and go back to the newest star only.

Rejected: a regular expression per query. `*a*a*a*` takes it exponential time, and a hundred thousand
compiled ones take memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.heartbeat.paths import ROOT, parse_path, path_of, segments_of

Match = Literal["exact", "prefix"]
POLICIES: Final[tuple[Match, ...]] = ("exact", "prefix")

_ONE: Final = "*"
_ANY: Final = "**"
_LITERAL_POINTS: Final = 2
_INNER_POINTS: Final = 1


class Query(NamedTuple):
    """A parsed query: what it matches, how specific it is, and the literal segments it begins with."""

    path: str
    policy: Match
    segments: tuple[str, ...]

    @property
    def specificity(self) -> int:
        """2 for each literal segment, 1 for each with an inner star."""
        return sum(map(_points, self.segments))

    @property
    def head(self) -> tuple[str, ...]:
        """The literal segments it begins with: every signal that it matches begins with them, too."""
        stars = (at for at, segment in enumerate(self.segments) if "*" in segment)
        return self.segments[: next(stars, len(self.segments))]

    @property
    def is_literal_headed(self) -> bool:
        """Tell whether it begins with a literal segment."""
        return bool(self.segments) and "*" not in self.segments[0]

    def matches(self, signal: Sequence[str]) -> bool:
        """Tell whether it matches the segments of a signal.

        >>> parse_query("/img/**/thumb", "exact").matches(("img", "a", "b", "thumb"))
        True
        >>> parse_query("/img", "prefix").matches(("img", "a")), parse_query("/img").matches(("img", "a"))
        (True, False)
        """
        if not self.segments:
            return True
        pattern = self.segments if self.policy == "exact" else (*self.segments, _ANY)
        return _covers(pattern, signal, _ANY, _segment_matches)


def parse_query(text: object, policy: object = "exact") -> Query:
    """The query that a text means; refused where it means none. An empty text is the empty query."""
    if policy not in POLICIES:
        raise Rejected(
            "heartbeat.match", "match is {policy!r}; it is one of: {known}",
            policy=policy, known=", ".join(POLICIES),
        )  # fmt: skip
    path = ROOT if text == "" else parse_path(text, "query")
    return Query(path, policy, segments_of(path))


def heads_of(signal: Sequence[str]) -> list[str]:
    """The heads that a query matching this signal may have, as paths."""
    return [path_of(signal[:count]) for count in range(len(signal) + 1)]


def _points(segment: str) -> int:
    if "*" not in segment:
        return _LITERAL_POINTS
    return 0 if segment in (_ONE, _ANY) else _INNER_POINTS


def _segment_matches(pattern: str, segment: str) -> bool:
    if "*" not in pattern:
        return pattern == segment
    return pattern == _ONE or _covers(pattern, segment, "*", str.__eq__)


def _covers(
    pattern: Sequence[str], parts: Sequence[str], star: str, fits: Callable[[str, str], bool]
) -> bool:
    """Tell whether a pattern covers all parts, where a `star` in it stands for any run of them."""
    at = place = 0
    star_at, star_place = -1, 0
    while place < len(parts):
        if at < len(pattern) and pattern[at] == star:
            star_at, star_place = at, place
            at += 1
        elif at < len(pattern) and fits(pattern[at], parts[place]):
            at, place = at + 1, place + 1
        elif star_at >= 0:  # the newest star takes one more
            star_place += 1
            at, place = star_at + 1, star_place
        else:
            return False
    return all(each == star for each in pattern[at:])
