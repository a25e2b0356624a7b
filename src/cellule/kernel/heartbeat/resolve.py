"""From candidates to the order in which they run.

`before: [X]` runs ahead of X, `after: [X]` behind it; names that are not candidates are ignored. Where
several candidates share a name, a constraint on it goes to the first of them: those whose query begins with
a literal segment first, then by registration. Among those that are ready the order is: specificity, highest
first; name; registration number. A cycle drops the whole result.

With a target every candidate is bound and matches the signal where there is one, without a target every
candidate matches the signal alone: all candidates of one impulse match by as many paths. So the rule "dual
matches ahead of single ones" never decides, and stands nowhere below.

Rejected: to sort, then to move. Kahn's algorithm with a heap gives the one order that the rules describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeVar

from cellule.kernel.heartbeat.query import Query


class Candidate(Protocol):
    """What ordering needs of an entry of the registry."""

    @property
    def number(self) -> int:
        """Its registration number."""

    @property
    def name(self) -> str:
        """Its name; several entries may share one."""

    @property
    def query(self) -> Query:
        """The signals it is registered for."""

    @property
    def before(self) -> Sequence[str]:
        """The names it runs ahead of."""

    @property
    def after(self) -> Sequence[str]:
        """The names it runs behind."""


C = TypeVar("C", bound=Candidate)


def best_of(entries: Iterable[C]) -> C | None:
    """The entry of one name that a bound target takes: the most specific, then the first registered."""
    return min(entries, key=lambda entry: (-entry.query.specificity, entry.number), default=None)


def in_order(candidates: Sequence[C]) -> list[C] | None:
    """The candidates in the order in which they run; None where their constraints form a cycle."""
    by_name: dict[str, C] = {}
    for entry in sorted(candidates, key=lambda entry: (not entry.query.is_literal_headed, entry.number)):
        by_name.setdefault(entry.name, entry)
    behind: dict[int, set[int]] = {entry.number: set() for entry in candidates}
    waits = dict.fromkeys(behind, 0)
    for entry in candidates:
        for first, then in _edges(entry, by_name):
            if then not in behind[first]:
                behind[first].add(then)
                waits[then] += 1
    known = {entry.number: entry for entry in candidates}
    ready = [_rank(entry) for entry in candidates if not waits[entry.number]]
    heapify(ready)
    ordered: list[C] = []
    while ready:
        number = heappop(ready)[-1]
        ordered.append(known[number])
        for then in behind[number]:
            waits[then] -= 1
            if not waits[then]:
                heappush(ready, _rank(known[then]))
    return ordered if len(ordered) == len(candidates) else None


def _edges(entry: C, by_name: Mapping[str, C]) -> Iterable[tuple[int, int]]:
    for name in entry.before:
        if name in by_name:
            yield entry.number, by_name[name].number
    for name in entry.after:
        if name in by_name:
            yield by_name[name].number, entry.number


def _rank(entry: Candidate) -> tuple[int, bytes, int]:
    return -entry.query.specificity, entry.name.encode(), entry.number
