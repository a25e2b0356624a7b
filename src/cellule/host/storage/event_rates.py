"""How many events a universe was sent, second by second, by all processes together: its quota looks at that.

    events/<universe>/<second>    a counter, by wall time; cleared after some seconds

A process that does not own the store counts what it puts into an inbox, in the same batch. The owner, which
takes far more, adds what it took once a second, and takes off its own allowance what others sent. So the
quota is of all together, a second late at most. Who sends too much is refused; what is in an inbox goes on.

Rejected: one row with what is left. All who send to a universe would queue for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from cellule.host.limits import QUOTA_BURST_S, QUOTA_COUNTED_S
from cellule.store import keys
from cellule.store.engine import Batch, Engine, counter_value

SECOND_NS = 1_000_000_000
AHEAD_S = 2  # machines' clocks differ


def counted(universe: UUID, now_ns: int, count: int) -> Batch:
    """What counts events that are sent now."""
    second = now_ns // SECOND_NS
    old = (keys.universe_events(universe, 0), keys.universe_events(universe, second - 2 * QUOTA_COUNTED_S))
    return Batch(add={keys.universe_events(universe, second): count}, clear_range=[old])


async def read_counts(engine: Engine, universe: UUID, now_ns: int) -> dict[int, int]:
    """The events of the last seconds."""
    second = now_ns // SECOND_NS
    seconds = range(second - QUOTA_COUNTED_S, second + AHEAD_S)
    found = await engine.read([keys.universe_events(universe, each) for each in seconds])
    return {each: counter_value(value) for each, value in zip(seconds, found, strict=True)}


def allowance(counts: Mapping[int, int], per_s: int, now_ns: int) -> float:
    """How many events may be sent now, after those of the last seconds; below 0 where they were too many."""
    second = now_ns // SECOND_NS
    most = left = float(per_s * QUOTA_BURST_S)
    for each in range(second - QUOTA_COUNTED_S, second + 1):
        left = max(min(most, left + per_s) - counts.get(each, 0), -most)
    return left
