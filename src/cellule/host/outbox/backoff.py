"""How fast: the rate limit of an adapter, and the growing pauses between attempts.

Both are pure given time and chance. A pause is drawn once, when an attempt fails, and written into the row:
after a crash it is what it was.
"""

from __future__ import annotations

from math import isnan

from cellule.host.outbox.limits import BURST_S, DELAY_MAX_S

SECOND_NS = 1_000_000_000


class Bucket:
    """Lets `rate_per_s` attempts begin, evenly; what gathers in `BURST_S` may begin at once."""

    def __init__(self, rate_per_s: float | None, now_ns: int) -> None:
        self._each_ns = 0 if rate_per_s is None else SECOND_NS / rate_per_s
        self._slack_ns = max(BURST_S * SECOND_NS - self._each_ns, 0.0)
        self._free_ns: float = now_ns  # when the next attempt would begin if all came evenly

    def take(self, now_ns: int) -> bool:
        """Begin an attempt, if the rate allows one now; on a clock that never goes back."""
        if not self._each_ns:
            return True
        if self.wait_ns(now_ns) > 0:
            return False
        self._free_ns = max(self._free_ns, now_ns) + self._each_ns
        return True

    def wait_ns(self, now_ns: int) -> int:
        """How long until one may begin; 0 for now."""
        return max(0, -int(-(self._free_ns - self._slack_ns - now_ns) // 1))


def jitter_ns(base_s: float, most_s: float, last_ns: int, chance: bytes) -> int:
    """Decorrelated jitter: a pause between `base_s` and three times the last one, at most `most_s`.

    `chance` is 8 bytes; all zeros give the shortest pause.
    """
    base_ns = int(base_s * SECOND_NS)
    top_ns = max(3 * max(last_ns, base_ns), base_ns)
    drawn = base_ns + (top_ns - base_ns) * int.from_bytes(chance[:8], "big") // (1 << 64)
    return min(drawn, int(most_s * SECOND_NS))


def asked_ns(after_s: float) -> int:
    """The pause the other side asked for, within reason."""
    if isnan(after_s):
        return 0
    return int(min(max(after_s, 0.0), DELAY_MAX_S) * SECOND_NS)
