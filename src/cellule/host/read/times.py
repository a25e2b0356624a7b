"""Where in the journal a moment lies: the last whole beat at or before it, by the frames' own times."""

from __future__ import annotations

from datetime import UTC, datetime

from cellule.errors import Rejected
from cellule.host.journal import frame_at
from cellule.host.own.directory import WorldInfo, read_head
from cellule.kernel.journal.frame import decode_frame
from cellule.store.engine import Engine


async def height_at(engine: Engine, info: WorldInfo, time_ns: int) -> int:
    """The last height of the newest frame made at or before `time_ns`; 0 before the first.

    Frames' times never go back, so this is a search by halves: it reads as many frames as the height has
    binary digits.
    """
    head = await read_head(engine, info)
    known, above = 0, head.height + 1  # `known` is at or before the time; `above` starts a frame after it
    while known + 1 < above:
        _, data = await frame_at(engine, info.universe, info.id, (known + above) // 2, head.height)
        header = decode_frame(data).header
        if header.now_ns <= time_ns:
            known = header.last
        else:
            above = header.first
    return known


def nanoseconds_of(when: datetime) -> int:
    """An aware time as nanoseconds since the Unix epoch; `Rejected` for a naive one."""
    if when.tzinfo is None:
        raise Rejected("host.naive_time", "{when} has no time zone", when=when, hint="Use an aware datetime.")
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
