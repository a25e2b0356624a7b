"""What runs next: the ready callbacks, the timers, virtual time, and the choice between equals.

Invariant: virtual time moves only when nothing is ready, to the earliest timer, and never back. With a seed,
any of the callbacks that are ready at one moment may be next, due timers included; with `None`, they run
first in, first out.

Rejected: shuffling whole rounds, as asyncio itself runs in rounds. A callback made ready by another could
then never overtake an older one, which real I/O does all the time.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque

from cellule.testing.tasks import ReadyHandle, TimerHandle

_STALE_MIN = 100


class Schedule:
    """The callbacks of one loop; `now_ns` is its virtual time."""

    def __init__(self, seed: int | None) -> None:
        self.now_ns = 0
        self._chance = None if seed is None else random.Random(seed)  # noqa: S311 - a schedule, not a secret
        self._ready: deque[ReadyHandle | TimerHandle] = deque()
        self._timers: list[tuple[int, int, TimerHandle]] = []
        self._timers_made = itertools.count()
        self._stale = 0

    def add(self, handle: ReadyHandle) -> None:
        """Make `handle` ready at this moment."""
        self._ready.append(handle)

    def arm(self, when_ns: float, handle: TimerHandle) -> None:
        """Make `handle` ready at `when_ns`; infinity means never."""
        if when_ns != math.inf:
            heapq.heappush(self._timers, (int(when_ns), next(self._timers_made), handle))

    def after(self, delay: float) -> float:
        """The time `delay` seconds from now, in nanoseconds.

        A positive delay is at least one, or a caller that waits for the rest of its time would never end.
        """
        if delay == math.inf:
            return math.inf
        return self.now_ns + max(round(delay * 1e9), 1 if delay > 0 else 0)

    def timer_cancelled(self) -> None:
        """Drop cancelled timers once they are the larger part."""
        self._stale += 1
        if self._stale > max(_STALE_MIN, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._stale = 0

    def next(self) -> ReadyHandle | TimerHandle | None:
        """Take the callback that runs next, moving time if nothing is ready; `None` if nothing will be."""
        ready, timers = self._ready, self._timers
        if not ready:
            self._skip_cancelled()
            if not timers:
                return None
            self.now_ns = max(self.now_ns, timers[0][0])
        while timers and timers[0][0] <= self.now_ns:
            ready.append(heapq.heappop(timers)[2])
        if self._chance is not None and len(ready) > 1:
            index = int(self._chance.random() * len(ready))
            ready[0], ready[index] = ready[index], ready[0]
        return ready.popleft()

    def clear(self) -> None:
        """Forget every callback."""
        self._ready.clear()
        self._timers.clear()

    def _skip_cancelled(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
