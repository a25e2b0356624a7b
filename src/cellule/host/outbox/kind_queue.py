"""The queue of one kind: its rows that are in memory, in the order in which they are performed.

Rows that are ready stand by priority, then time; the others by when their pause is over, on the monotonic
clock. So many attempts run at once as the adapter allows, and as fast. Every row is in one of four states:
waiting, checked (about to run), running, settling (its outcome is being written). How many rows a
queue holds is the window's business.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Literal, Protocol

from cellule.host.outbox.attempts import Performer
from cellule.host.outbox.key_limits import KeyLimits, Place
from cellule.host.outbox.limits import TAKE_MAX
from cellule.host.outbox.rate_limit import RateLimit
from cellule.host.outbox.rows import Row, Stored
from cellule.sources import Clock

WAITING, CHECKED, RUNNING, SETTLING = "waiting", "checked", "running", "settling"
_VOID_MIN = 64


class Stoppable(Protocol):
    """A running attempt, as those see it who end it."""

    def stop(self, reason: Literal["expired", "silent", "closed", "ending"]) -> None:
        """Cancel what the adapter does."""


class Entry:
    """One row in memory.

    `known` tells that this process wrote the row, so nobody can have changed it; `closed` that its intent was
    settled by the world and has a marker. While `saving`, its row is about to hold the progress of its
    attempt; `after` is what waits for that.
    """

    __slots__ = ("after", "attempt", "closed", "known", "queue", "saving", "state", "stored")

    def __init__(self, stored: Stored, queue: KindQueue, *, known: bool = False) -> None:
        self.stored = stored
        self.queue = queue
        self.known = known
        self.state = SETTLING
        self.attempt: Stoppable | None = None
        self.closed = False
        self.saving = False
        self.after: Callable[[], None] | None = None


class KindQueue:
    """The rows of one kind, and how its adapter wants them."""

    def __init__(self, performer: Performer, clock: Clock) -> None:
        self.performer = performer
        self._clock = clock
        self.limits = performer.limits
        self.left = False  # the store has more than the window holds
        self.count = 0
        self.bytes = 0
        self.active = 0  # checked or running
        self._keys: KeyLimits[Entry] = KeyLimits(self.limits)
        self._rate = RateLimit(self.limits.rate_per_s, clock.monotonic_ns())
        self._ready: list[Place[Entry]] = []
        self._later: list[tuple[int, int, Entry]] = []
        self._pushed = 0
        self._void = 0  # of those that wait, how many left the queue meanwhile

    def push(self, entry: Entry) -> None:
        """Let a row wait for its time; the first attempt has none, wherever the clock has gone since."""
        entry.state = WAITING
        self._pushed += 1
        row = entry.stored.row
        if row.tried:
            heappush(self._later, (self._due_ns(row.ready_ns), self._pushed, entry))
        else:
            heappush(self._ready, (row.priority, row.ready_ns, self._pushed, entry))

    def withdraw(self, entry: Entry) -> None:
        """A row that waits is not to be performed; its place is given up now or soon."""
        entry.state = SETTLING
        self._void += 1
        if self._keys.is_any:
            self._keys.skip(entry.stored.row, self._clock.monotonic_ns())
        if self._void > max(_VOID_MIN, self.count // 2):
            self._keys.keep(lambda each: each.state is WAITING)
            self._ready = [each for each in self._ready if each[3].state is WAITING]
            self._later = [each for each in self._later if each[2].state is WAITING]
            heapify(self._ready)
            heapify(self._later)
            self._void = 0

    def take(self) -> list[Entry]:
        """The rows to perform now; each counts as active until it is released."""
        taken: list[Entry] = []
        while len(taken) < TAKE_MAX and (entry := self.next()) is not None:
            taken.append(entry)
        return taken

    def next(self, *, known: bool = False) -> Entry | None:
        """The row to perform next, if one may be performed now; with `known` only one that needs no look."""
        ready = self._ready
        if self._later:
            self._ripen()
        while True:
            if self._keys.is_any:
                self._come_back()
            while ready and ready[0][3].state is not WAITING:
                heappop(ready)
                self._void -= 1
            if not ready or self.active >= self.limits.concurrency or (known and not ready[0][3].known):
                return None
            if self.limits.rate_per_s is not None and self._rate.wait_ns(self._clock.monotonic_ns()) > 0:
                return None
            place = heappop(ready)
            entry = place[3]
            # A key at its limit takes the row aside, and the next row gets its turn.
            if not self._keys.is_any or self._keys.begin(entry.stored.row, place, self._clock.monotonic_ns()):
                break
        if self.limits.rate_per_s is not None:
            self._rate.take(self._clock.monotonic_ns())
        entry.state = CHECKED
        self.active += 1
        return entry

    def release(self, entry: Entry) -> None:
        """An attempt ended, or did not begin: its place is free."""
        self.active -= 1
        if self._keys.is_any:
            self._keys.end(entry.stored.row, self._clock.monotonic_ns())

    def give_way(self, row: Row) -> list[Entry]:
        """Rows to leave to the store, so that there is room for this one; see `KeyLimits`."""
        if not self._keys.is_any:
            return []
        given = self._keys.give_way(row, self._clock.monotonic_ns())
        waiting = [entry for entry in given if entry.state is WAITING]
        self._void -= len(given) - len(waiting)
        return waiting

    def _come_back(self) -> None:
        """Rows that stood aside may be the next again."""
        now_ns = self._clock.monotonic_ns()
        while places := self._keys.freed(now_ns):
            for place in places:
                entry = place[3]
                if entry.state is WAITING:
                    heappush(self._ready, place)
                else:
                    self._void -= 1
                    self._keys.skip(entry.stored.row, now_ns)

    def wait_ns(self) -> int | None:
        """How long until a row can be performed without any other event; None if there is no such time."""
        if self.active >= self.limits.concurrency:
            return None
        waits: list[int | None] = []
        if self._keys.is_any:
            waits.append(self._keys.wait_ns(self._clock.monotonic_ns()))
        if self._ready:
            waits.append(self._rate.wait_ns(self._clock.monotonic_ns()))
        elif self._later:
            waits.append(max(0, self._later[0][0] - self._clock.monotonic_ns()))
        return min((each for each in waits if each is not None), default=None)

    def _due_ns(self, ready_ns: int) -> int:
        """When a pause is over on the monotonic clock: wherever the wall clock goes, it lasts as long."""
        return self._clock.monotonic_ns() + max(0, ready_ns - self._clock.now_ns())

    def _ripen(self) -> None:
        """Let rows whose time has come stand with those that are ready."""
        later, now_ns = self._later, self._clock.monotonic_ns()
        while later and later[0][0] <= now_ns:
            _, number, entry = heappop(later)
            row = entry.stored.row
            heappush(self._ready, (row.priority, row.ready_ns, number, entry))
