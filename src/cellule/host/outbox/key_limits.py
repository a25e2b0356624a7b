"""How many attempts of one kind run at once, and begin in a second, for each value of a field of the params.

    concurrency_by={"tenant": 2}    two at once for each tenant, whatever the others do
    rate_by={"tenant": 5.0}         five a second for each tenant

A row whose value has no free place stands aside until an attempt with that value ends, or its next moment
comes; those behind it go ahead. Values are forgotten when nothing is left of them. Params that are too long
to stand in their row share one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from cellule.effects.adapter_limits import AdapterLimits
from cellule.errors import CelluleError
from cellule.host.outbox.rate_limit import RateLimit
from cellule.host.outbox.rows import Row
from cellule.values.cbor import decode, encode

E = TypeVar("E")


class _Group(Generic[E]):
    """The attempts of one value."""

    __slots__ = ("active", "aside", "rate")

    def __init__(self, rate_per_s: float | None, now_ns: int) -> None:
        self.active = 0
        self.aside: list[E] = []
        self.rate = RateLimit(rate_per_s, now_ns)


class KeyLimits(Generic[E]):
    """The limits of one kind by value; nothing at all where its adapter has none."""

    def __init__(self, limits: AdapterLimits) -> None:
        self._at_once = next(iter(limits.concurrency_by.items()), None)
        self._a_second = next(iter(limits.rate_by.items()), None)
        self._groups: dict[tuple[str, bytes], _Group[E]] = {}
        self.is_any = self._at_once is not None or self._a_second is not None

    def begin(self, row: Row, entry: E, now_ns: int) -> bool:
        """Take a place and a turn for a row; False where it has to stand aside, which it does now."""
        groups = self._of(row, now_ns)
        for limit, group in groups:
            is_full = limit is not None and group.active >= limit
            if is_full or (limit is None and group.rate.wait_ns(now_ns) > 0):
                group.aside.append(entry)
                return False
        for limit, group in groups:
            group.active += 1
            if limit is None:
                group.rate.take(now_ns)
        return True

    def end(self, row: Row, now_ns: int) -> list[E]:
        """An attempt of a row ended; returns the rows that need not stand aside for it any more."""
        freed: list[E] = []
        for _, group in self._of(row, now_ns):
            group.active -= 1
            freed += group.aside
            group.aside = []
        self._forget(now_ns)
        return freed

    def due(self, now_ns: int) -> list[E]:
        """The rows that stood aside for their turn, and whose moment has come."""
        freed: list[E] = []
        for group in self._groups.values():
            if group.aside and group.rate.wait_ns(now_ns) == 0 and not self._is_full(group):
                freed += group.aside
                group.aside = []
        return freed

    def wait_ns(self, now_ns: int) -> int | None:
        """How long until a row that stands aside may have its turn; None where none does for its turn."""
        waits = [each.rate.wait_ns(now_ns) for each in self._groups.values() if each.aside]
        return min((wait for wait in waits if wait > 0), default=None)

    def _is_full(self, group: _Group[E]) -> bool:
        return self._at_once is not None and group.active >= self._at_once[1] and group.rate.is_free

    def _of(self, row: Row, now_ns: int) -> list[tuple[int | None, _Group[E]]]:
        """The groups of a row, each with its limit of attempts at once; None for the one of the rate."""
        found: list[tuple[int | None, _Group[E]]] = []
        if self._at_once is not None:
            path, limit = self._at_once
            found.append((limit, self._group("at once", path, None, row, now_ns)))
        if self._a_second is not None:
            path, rate = self._a_second
            found.append((None, self._group("a second", path, rate, row, now_ns)))
        return found

    def _group(self, what: str, path: str, rate: float | None, row: Row, now_ns: int) -> _Group[E]:
        place = what, value_at(row, path)
        group = self._groups.get(place)
        if group is None:
            group = self._groups[place] = _Group(rate, now_ns)
        return group

    def _forget(self, now_ns: int) -> None:
        """Drop values of which nothing is left, now and then."""
        if len(self._groups) < _SWEEP_MIN or len(self._groups) & (len(self._groups) - 1):
            return
        self._groups = {
            place: group
            for place, group in self._groups.items()
            if group.active or group.aside or group.rate.is_spent(now_ns)
        }


_SWEEP_MIN = 1_024


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
