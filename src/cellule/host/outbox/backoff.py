"""The growing pauses between attempts of an effect.

Pure given chance. A pause is drawn once, when an attempt fails, and written into the row: after a crash it is
what it was.
"""

from __future__ import annotations

from datetime import timedelta
from math import isnan

from cellule.host.outbox.limits import DELAY_MAX_S

SECOND_NS = 1_000_000_000


def jitter_ns(base_ns: int, most_ns: int, last_ns: int, chance: bytes) -> int:
    """Decorrelated jitter: a pause between `base_ns` and three times the last one, at most `most_ns`.

    `chance` is 8 bytes; all zeros give the shortest pause.
    """
    top_ns = max(3 * max(last_ns, base_ns), base_ns)
    drawn = base_ns + (top_ns - base_ns) * int.from_bytes(chance[:8], "big") // (1 << 64)
    return min(drawn, most_ns)


def seconds_of(after: object, most_s: float = DELAY_MAX_S) -> float | None:
    """The seconds an adapter asked for, from 0 to `most_s`; None where it is neither number nor timedelta."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    wanted_s = float(min(max(seconds, 0.0), most_s))  # a class of its own may compare as it likes
    return None if isnan(wanted_s) else min(max(wanted_s, 0.0), most_s)
