"""Until when a message is kept: a beat, a time, both, or for ever.

Three specs are asked, of the message, its mailbox and the topology, for beats and for wall time apart: the
first that mentions the field decides, and 0 means that there is no limit of this kind. `forever` in any of
them ends the matter. With a limit in wall time only, the beat of the deadline is projected from the intervals
between the newest beats, so that retention can be woken by a beat; the wall deadline stays the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from cellule.kernel.heartbeat.spacing import mean_of

LOOKAHEAD_DEFAULT: Final = 32
SAMPLES_DEFAULT: Final = 8

Source = Literal["message", "mailbox", "topology"]
SOURCES: Final[tuple[Source, ...]] = ("message", "mailbox", "topology")


class TtlSpec(NamedTuple):
    """What one of the three says; None: nothing."""

    beats: int | None = None
    unix_ns: int | None = None
    forever: bool = False


class TtlContext(NamedTuple):
    """When the message was issued and what it is now, as far as known."""

    issued_beat: int | None = None
    issued_unix_ns: int | None = None
    current_beat: int | None = None
    current_unix_ns: int | None = None


class TtlSettings(NamedTuple):
    """How a beat is projected: `lookahead` 0 is no cap, `samples` 0 is all intervals."""

    wallclock_disabled: bool = False
    lookahead: int = LOOKAHEAD_DEFAULT
    samples: int = SAMPLES_DEFAULT


class Ttl(NamedTuple):
    """The deadlines of a message, and who set them; `interval_ns` is the mean that a projection took."""

    forever: bool = False
    beat_deadline: int | None = None
    beats_source: Source | None = None
    wall_deadline: int | None = None
    wall_source: Source | None = None
    projected: bool = False
    interval_ns: int | None = None


def resolve(
    specs: Sequence[TtlSpec | None],
    context: TtlContext,
    settings: TtlSettings,
    published: Callable[[int], int | None],
    intervals: list[int],
) -> Ttl | None:
    """Find the deadlines; None when a limit has nothing to count from. `specs` in the order of `SOURCES`."""
    if any(spec is not None and spec.forever for spec in specs):
        return Ttl(forever=True)
    beats, beats_source = _first(specs, "beats")
    wall_ns, wall_source = _first(specs, "unix_ns")
    ttl = Ttl()
    if beats:
        origin = context.current_beat if context.issued_beat is None else context.issued_beat
        if origin is None:
            return None
        ttl = ttl._replace(beat_deadline=origin + beats, beats_source=beats_source)
    if wall_ns:
        origin_ns = _origin_ns(context, published)
        if not origin_ns:
            return None
        ttl = ttl._replace(wall_deadline=origin_ns + wall_ns, wall_source=wall_source)
    return _with_projection(ttl, context, settings, intervals)


def _first(
    specs: Sequence[TtlSpec | None], field: Literal["beats", "unix_ns"]
) -> tuple[int | None, Source | None]:
    for source, spec in zip(SOURCES, specs, strict=True):
        if spec is None:
            continue
        value = spec.beats if field == "beats" else spec.unix_ns
        if value is not None:
            return value, source
    return None, None


def _origin_ns(context: TtlContext, published: Callable[[int], int | None]) -> int | None:
    if context.issued_unix_ns is not None:
        return context.issued_unix_ns
    told = None if context.issued_beat is None else published(context.issued_beat)
    return context.current_unix_ns if told is None else told


def _with_projection(ttl: Ttl, context: TtlContext, settings: TtlSettings, intervals: list[int]) -> Ttl:
    beat, now_ns = context.current_beat, context.current_unix_ns
    if ttl.wall_deadline is None or ttl.beat_deadline is not None or settings.wallclock_disabled:
        return ttl
    if beat is None or now_ns is None:
        return ttl
    mean_ns = mean_of(intervals, settings.samples)
    if mean_ns is None:
        return ttl
    beats = max(0, -((now_ns - ttl.wall_deadline) // mean_ns))
    if settings.lookahead:
        beats = min(beats, settings.lookahead)
    return ttl._replace(beat_deadline=beat + beats, projected=True, interval_ns=mean_ns)
