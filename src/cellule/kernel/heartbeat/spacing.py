"""The wall clock of beats, and the intervals between them.

A beat's time is told once: the same value again is fine, another is refused, and beats may be told in any
order. An interval is kept under a beat only when that beat is later than all told before; of the intervals
the newest `window` are kept, but never more than `INTERVALS_MAX`. `Spacing` is what a world keeps of this
beside the told times themselves, which stand in an index of their own because they are not forgotten.
"""

from __future__ import annotations

from typing import Final

WINDOW_DEFAULT: Final = 256
WINDOW_MAX: Final = 2**53
INTERVALS_MAX: Final = 4_096  # kept, however wide the window is


class Spacing:
    """The newest told beat, and the intervals in the order of their beats."""

    __slots__ = ("beat", "intervals", "ns", "window")

    def __init__(
        self,
        window: int = WINDOW_DEFAULT,
        beat: int | None = None,
        ns: int = 0,
        intervals: list[tuple[int, int]] | None = None,
    ) -> None:
        self.window = window
        self.beat = beat
        self.ns = ns
        self.intervals = [] if intervals is None else intervals

    def add(self, beat: int, ns: int) -> None:
        """A beat's time is told, for the first time."""
        if self.beat is not None:
            if beat < self.beat:
                return
            self.intervals.append((beat, max(0, ns - self.ns)))
            self._trim()
        self.beat, self.ns = beat, ns

    def set_window(self, window: int) -> bool:
        """Keep this many intervals from now on; false for a window that there cannot be."""
        if not 0 < window <= WINDOW_MAX:
            return False
        self.window = window
        self._trim()
        return True

    def mean(self, samples: int) -> int | None:
        """The mean of the newest intervals in whole ns, of all for `samples` 0; None when there is none."""
        return mean_of([interval for _, interval in self.intervals], samples)

    def _trim(self) -> None:
        kept = min(self.window, INTERVALS_MAX)
        if len(self.intervals) > kept:
            del self.intervals[: len(self.intervals) - kept]


def may_publish(known_ns: int | None, ns: int) -> bool:
    """Tell whether a beat's time may be told, given what was told of it before."""
    return ns >= 0 and (known_ns is None or known_ns == ns)


def mean_of(intervals: list[int], samples: int) -> int | None:
    """The mean of the last `samples` intervals, rounded down; None when there is none, or it is 0."""
    newest = intervals[-samples:] if samples else intervals
    if not newest:
        return None
    return sum(newest) // len(newest) or None
