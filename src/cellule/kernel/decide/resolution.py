"""Which entries an impulse resolves to, and in which order, by the registry and the bindings as they are.

With a target: of each name that is effective on it, the best entry that matches the signal. Without: every
entry that matches. Continuations and timeouts of an operation that has no binding go to everybody, too.
What was resolved is remembered for the beat.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from cellule.kernel.decide import operations
from cellule.kernel.decide.operations import OPS_PATH
from cellule.kernel.heartbeat.entries import Entry
from cellule.kernel.heartbeat.paths import ancestors_of, is_below, segments_of
from cellule.kernel.heartbeat.resolve import best_of, in_order
from cellule.kernel.journal.codes import LOCAL, TOMBSTONE
from cellule.kernel.limits import CANDIDATES_MAX
from cellule.kernel.need import Need
from cellule.kernel.state import tree
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.heartbeat_rows import CONTINUATION, Impulse
from cellule.kernel.state.ledger import Ledger


class Resolved(NamedTuple):
    """The entries in their order; none where they form a cycle, or are too many (`over`)."""

    entries: Sequence[Entry]
    cycle: bool = False
    over: int = 0


class Resolver:
    """Resolves the impulses of one beat."""

    def __init__(self, ledger: Ledger, heartbeat: Heartbeat) -> None:
        self._ledger = ledger
        self._heartbeat = heartbeat
        self._resolved: dict[tuple[str | None, str | None, bool], Resolved] = {}
        self._bound: dict[str, dict[str, int]] = {}

    def resolve(self, impulse: Impulse) -> Generator[Need, None, Resolved]:
        """The entries of an impulse."""
        key = (impulse.signal, impulse.target, impulse.kind == CONTINUATION)
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = _ordered((yield from self._candidates(*key)))
        return found

    def _candidates(
        self, signal: str | None, target: str | None, is_continuation: bool
    ) -> Generator[Need, None, list[Entry]]:
        segments = None if signal is None else segments_of(signal)
        if target is None:
            assert segments is not None
            return (yield from self._heartbeat.matching(segments))
        names: list[str] = []
        if (yield from self._exists(target)):
            names = yield from self.effective(target)
        if not names and is_continuation and segments is not None:
            return (yield from self._heartbeat.matching(segments))
        found: list[Entry] = []
        for name in names:
            entries = yield from self._heartbeat.named(name)
            best = best_of(each for each in entries if segments is None or each.query.matches(segments))
            if best is not None:
                found.append(best)
        return found

    def _exists(self, target: str) -> Generator[Need, None, bool]:
        if is_below(target, OPS_PATH):
            return (yield from operations.exists(self._ledger, target))
        return (yield from tree.has_node(self._ledger, target))

    def effective(self, target: str) -> Generator[Need, None, list[str]]:
        """The names that are effective on a target: its own, and those that its ancestors pass on."""
        names: dict[str, None] = {}
        for place in (*ancestors_of(target), target):
            bound = self._bound.get(place)
            if bound is None:
                bound = self._bound[place] = yield from self._heartbeat.bound_at(place)
            for name, how in bound.items():
                if how == TOMBSTONE:
                    names.pop(name, None)
                elif how != LOCAL or place == target:
                    names[name] = None
        return list(names)


def _ordered(candidates: list[Entry]) -> Resolved:
    if len(candidates) > CANDIDATES_MAX:
        return Resolved((), over=len(candidates))
    ordered = in_order(candidates)
    return Resolved((), cycle=True) if ordered is None else Resolved(ordered)
