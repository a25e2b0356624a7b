"""`RateLimit`: how many attempts of one adapter may begin in a second. Pure given time."""

from __future__ import annotations

from cellule.host.outbox.backoff import SECOND_NS
from cellule.host.outbox.limits import BURST_S


class RateLimit:
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

    def is_spent(self, now_ns: int) -> bool:
        """Tell whether something of the rate was taken that is not given back yet."""
        return self._each_ns > 0 and self._free_ns > now_ns
