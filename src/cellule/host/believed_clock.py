"""The machine's clock, unless it jumped forward too far to be believed.

A clock further ahead of the time that was believed last than a named bound is not believed: time goes on
from there at the pace of the monotonic clock. Only jumps count, and not how long nobody asked.
"""

from __future__ import annotations

from cellule.host.limits import CLOCK_JUMP_MAX_S
from cellule.sources import Clock

SECOND_NS = 1_000_000_000


class BelievedClock:
    """A clock whose time goes on from `last_ns`; `is_held` tells that the machine's is not believed."""

    def __init__(self, clock: Clock, last_ns: int) -> None:
        self._clock = clock
        self.monotonic_ns = clock.monotonic_ns
        self._seen_ns = last_ns  # the last time that was believed, and when that was
        self._seen_at_ns = clock.monotonic_ns()
        self.is_held = False

    def now_ns(self) -> int:
        """The time that is believed."""
        now_ns, at_ns = self._clock.now_ns(), self._clock.monotonic_ns()
        expected_ns = self._seen_ns + at_ns - self._seen_at_ns
        self.is_held = now_ns - expected_ns > CLOCK_JUMP_MAX_S * SECOND_NS
        if self.is_held:
            return expected_ns
        self._seen_ns, self._seen_at_ns = now_ns, at_ns
        return now_ns

    def accept(self) -> None:
        """Believe the machine's clock from now on."""
        self._seen_ns, self._seen_at_ns = self._clock.now_ns(), self._clock.monotonic_ns()
