"""How many attempts of one kind run at once, and begin in a second, for each value of a field of the params.

    concurrency_by={"tenant": 2}    two at once for each tenant, whatever the others do
    rate_by={"tenant": 5.0}         five a second for each tenant

A row whose value has no free place stands aside until an attempt with that value ends, or its next moment
comes; those behind it go ahead. What becomes free is offered to one row, and by that to the next if it
cannot use it, so an attempt costs the same however many rows stand aside. Where the queue is full, values
with many rows aside give way to those with few. Values are forgotten when nothing is left of them. Params
that are too long to stand in their row, or sealed, share one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

from cellule.effects.adapter_limits import AdapterLimits
from cellule.errors import CelluleError
from cellule.host.outbox.limits import GIVE_WAY_ROWS
from cellule.host.outbox.rate_limit import RateLimit
from cellule.host.outbox.rows import Row
from cellule.values.cbor import decode, encode

E = TypeVar("E")
Place = tuple[int, int, int, E]
"""Where a row stands: its priority, its time, the number it came by, and the row."""

_SWEEP_MIN = 1_024


class _Group(Generic[E]):
    """The attempts of one value, and the rows that stand aside for it, the first of them first."""

    __slots__ = ("active", "aside", "is_timed", "limit", "rate")

    def __init__(self, limit: int | None, rate_per_s: float | None, now_ns: int) -> None:
        self.limit = limit  # of attempts at once; None for the group of a rate
        self.active = 0
        self.rate = RateLimit(rate_per_s, now_ns)
        self.aside: list[Place[E]] = []
        self.is_timed = False

    def wait_ns(self, now_ns: int) -> int | None:
        """How long until another attempt may begin; 0 for now, None for until one ends."""
        if self.limit is not None and self.active >= self.limit:
            return None
        return self.rate.wait_ns(now_ns)

    def is_empty(self, now_ns: int) -> bool:
        """Tell whether nothing is left of this value."""
        return not (self.active or self.aside or self.rate.is_spent(now_ns))


class KeyLimits(Generic[E]):
    """The limits of one kind by value; nothing at all where its adapter has none."""

    def __init__(self, limits: AdapterLimits) -> None:
        self._at_once = next(iter(limits.concurrency_by.items()), None)
        self._a_second = next(iter(limits.rate_by.items()), None)
        self._groups: dict[tuple[str, bytes], _Group[E]] = {}
        self._crowds: dict[_Group[E], None] = {}  # those for which several rows stand aside
        self._timed: list[tuple[int, int, _Group[E]]] = []
        self._times = 0
        self._freed: list[Place[E]] = []
        self.is_any = self._at_once is not None or self._a_second is not None

    def begin(self, row: Row, place: Place[E], now_ns: int) -> bool:
        """Take a place and a turn for a row; False where it has to stand aside, which it does now."""
        groups = self._of(row, now_ns)
        full = next((group for group in groups if group.wait_ns(now_ns) != 0), None)
        if full is None:
            for group in groups:
                group.active += 1
                group.rate.take(now_ns)
        else:
            heappush(full.aside, place)
            if len(full.aside) > 1:
                self._crowds[full] = None
        for group in groups:
            self._pass_on(group, now_ns)
        return full is None

    def end(self, row: Row, now_ns: int) -> None:
        """An attempt of a row ended."""
        for group in self._of(row, now_ns):
            group.active -= 1
            self._pass_on(group, now_ns)
        self._forget(now_ns)

    def skip(self, row: Row, now_ns: int) -> None:
        """A row will not be performed: what it was offered is for the next one."""
        for group in self._of(row, now_ns):
            self._pass_on(group, now_ns)

    def freed(self, now_ns: int) -> list[Place[E]]:
        """The rows that need not stand aside any more; each is asked for by `begin` or `skip` again."""
        while self._timed and self._timed[0][0] <= now_ns:
            group = heappop(self._timed)[2]
            group.is_timed = False
            self._pass_on(group, now_ns)
        freed, self._freed = self._freed, []
        return freed

    def give_way(self, row: Row, now_ns: int) -> list[E]:
        """Rows to leave to the store, so that there is room for a row of a value that has far fewer."""
        crowd = max(self._crowds, key=lambda group: len(group.aside), default=None)
        if crowd is None:
            return []
        own = max(len(group.aside) for group in self._of(row, now_ns))
        if 2 * own >= len(crowd.aside):
            return []
        crowd.aside.sort()  # a sorted list is a heap
        kept = len(crowd.aside) - min(GIVE_WAY_ROWS, len(crowd.aside) // 2)
        given, crowd.aside = crowd.aside[kept:], crowd.aside[:kept]
        self._uncrowd(crowd)
        return [entry for _, _, _, entry in given]

    def keep(self, wanted: Callable[[E], bool]) -> None:
        """Let go of the rows aside that nobody wants any more."""
        for group in self._groups.values():
            group.aside = [place for place in group.aside if wanted(place[3])]
            heapify(group.aside)
            self._uncrowd(group)

    def wait_ns(self, now_ns: int) -> int | None:
        """How long until a row that stands aside may have its turn; None where none does for its turn."""
        return max(0, self._timed[0][0] - now_ns) if self._timed else None

    def _pass_on(self, group: _Group[E], now_ns: int) -> None:
        """Offer what a value has free to the first row that stands aside for it."""
        if not group.aside:
            return
        wait_ns = group.wait_ns(now_ns)
        if wait_ns == 0:
            self._freed.append(heappop(group.aside))
            self._uncrowd(group)
        elif wait_ns is not None and not group.is_timed:
            group.is_timed = True
            self._times += 1
            heappush(self._timed, (now_ns + wait_ns, self._times, group))

    def _uncrowd(self, group: _Group[E]) -> None:
        if len(group.aside) <= 1:
            self._crowds.pop(group, None)

    def _of(self, row: Row, now_ns: int) -> list[_Group[E]]:
        """The groups of a row: that of its attempts at once, and that of its rate."""
        found: list[_Group[E]] = []
        if self._at_once is not None:
            path, limit = self._at_once
            found.append(self._group("at once", path, row, lambda: _Group(limit, None, now_ns)))
        if self._a_second is not None:
            path, rate = self._a_second
            found.append(self._group("a second", path, row, lambda: _Group(None, rate, now_ns)))
        return found

    def _group(self, what: str, path: str, row: Row, new: Callable[[], _Group[E]]) -> _Group[E]:
        place = what, value_at(row, path)
        group = self._groups.get(place)
        if group is None:
            group = self._groups[place] = new()
        return group

    def _forget(self, now_ns: int) -> None:
        """Drop values of which nothing is left, now and then."""
        if len(self._groups) < _SWEEP_MIN or len(self._groups) & (len(self._groups) - 1):
            return
        self._groups = {place: group for place, group in self._groups.items() if not group.is_empty(now_ns)}


def value_at(row: Row, path: str) -> bytes:
    """The bytes of a field of a row's params, by dotted path; empty where it is not there."""
    if not isinstance(row.params, bytes):
        return b""
    try:
        found: Any = decode(row.params)
        for name in path.split("."):
            found = found[name] if isinstance(found, Mapping) else None
        return encode(found)
    except (CelluleError, LookupError, TypeError):
        return b""
