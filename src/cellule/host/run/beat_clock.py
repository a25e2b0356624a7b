"""The time a world's beats get: that of the machine, unless its clock jumped forward too far to be believed.

World time never goes back, so one beat under a clock that is years ahead would arm every later timer and
schedule for years on. A clock further ahead of the last beat than a named bound is therefore not believed:
time goes on from the last beat at the pace of the monotonic clock, which is logged, until a person accepts
the clock by the verb `clock.accept`. `stuck` and `doctor` show both this and a world that is ahead.

While a world is in memory only a jump counts, and not how long it had nothing to do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cellule.host.believed_clock import SECOND_NS, BelievedClock
from cellule.host.limits import CLOCK_AHEAD_S, CLOCK_JUMP_MAX_S
from cellule.kernel.items import ControlItem
from cellule.sources import Clock

ACCEPT: Final = "clock.accept"
_log = logging.getLogger("cellule.host")


class BeatClock:
    """The clock of one world in memory; `is_held` tells that the machine's is not believed."""

    def __init__(self, clock: Clock, world: str, last_ns: int) -> None:
        self._clock = clock
        self._world = world
        self._believed = BelievedClock(clock, last_ns)
        self.is_held = False
        drift = drift_text(last_ns, clock.now_ns())
        if drift is not None:
            _log.warning("world %s: %s", world, drift)

    def now_ns(self) -> int:
        """The time for a beat now."""
        now_ns, was_held = self._believed.now_ns(), self.is_held
        self.is_held = self._believed.is_held
        if self.is_held and not was_held:
            _log.warning("world %s: %s", self._world, drift_text(now_ns, self._clock.now_ns()))
        return now_ns

    def for_beat(self, items: Iterable[object]) -> int:
        """The time for a beat of these items; one of them may accept the machine's clock."""
        now_ns = self.now_ns()
        if self.is_held and any(isinstance(item, ControlItem) and item.verb == ACCEPT for item in items):
            return self.accept()
        return now_ns

    def accept(self) -> int:
        """Believe the machine's clock from now on."""
        self._believed.accept()
        return self.now_ns()


def drift_text(world_ns: int, now_ns: int) -> str | None:
    """What is wrong between a world's time and the machine's clock, and what to do; None where they agree."""
    ahead_ns = world_ns - now_ns
    if ahead_ns > CLOCK_AHEAD_S * SECOND_NS:
        return (
            f"the world's time is {_span(ahead_ns)} ahead of this machine's clock, and stands still until "
            "then: timers and schedules wait so much longer. Set the clock right if it is behind."
        )
    if -ahead_ns > CLOCK_JUMP_MAX_S * SECOND_NS:
        return (
            f"this machine's clock is {_span(-ahead_ns)} ahead of the world's last beat, and not believed: "
            "time goes on from that beat. Set the clock right, or if it is: cellule world accept-clock."
        )
    return None


def _span(span_ns: int) -> str:
    return str(timedelta(seconds=span_ns // SECOND_NS))
