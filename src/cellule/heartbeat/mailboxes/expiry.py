"""What is due: messages stand in buckets by the beat and by the time of their deadlines.

A message stands in the bucket of each deadline it was ever recorded with; recording it again does no harm. A
plan takes the due buckets of both kinds, in the order of their deadlines; where the beat or the time is not
known none of that kind is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from cellule.heartbeat.mailboxes.ttl import Ttl

Buckets = Mapping[int, AbstractSet[str]]
"""Message ids by deadline."""


class Plan(NamedTuple):
    """Due messages with their deadlines, ascending; `future_*` tell that later buckets exist."""

    beats: list[tuple[str, int]]
    wallclock: list[tuple[str, int]]
    future_beats: bool
    future_wallclock: bool


def record(beats: dict[int, set[str]], wallclock: dict[int, set[str]], message: str, ttl: Ttl) -> None:
    """Put a message into the buckets of its deadlines."""
    if ttl.beat_deadline is not None:
        beats.setdefault(ttl.beat_deadline, set()).add(message)
    if ttl.wall_deadline is not None:
        wallclock.setdefault(ttl.wall_deadline, set()).add(message)


def plan(beats: Buckets, wallclock: Buckets, beat: int | None, now_ns: int | None) -> Plan:
    """Find what is due at a beat and a time."""
    due_beats, future_beats = _due(beats, beat)
    due_wall, future_wall = _due(wallclock, now_ns)
    return Plan(due_beats, due_wall, future_beats, future_wall)


def _due(buckets: Buckets, now: int | None) -> tuple[list[tuple[str, int]], bool]:
    reached = [deadline for deadline in sorted(buckets) if now is not None and deadline <= now]
    entries = [(message, deadline) for deadline in reached for message in sorted(buckets[deadline])]
    return entries, len(reached) < len(buckets)
