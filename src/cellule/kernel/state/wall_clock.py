"""What a world keeps of the wall clock of its beats.

    told       beat -> the time that the world published for it
    spacing    the intervals between published beats
    frames     the intervals between frames, by their own time: used while nothing is published

A published time is kept for good, because another one for the same beat is refused; so there is a limit.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from cellule.errors import Corrupted
from cellule.kernel.heartbeat.spacing import WINDOW_MAX, Spacing
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.need import Need, Nodes
from cellule.values.cid import Cid

_BEAT_BYTES: Final = 8


class WallClock:
    """The clock of one world."""

    __slots__ = ("count", "frames", "spacing", "told")

    def __init__(self, nodes: Nodes) -> None:
        self.told: OrderedIndex[int] = OrderedIndex(None, nodes, unpack=_time)
        self.count = 0
        self.spacing = Spacing()
        self.frames = Spacing()

    @classmethod
    def load(cls, nodes: Nodes, times: tuple[Cid, int] | None, data: Mapping[str, Any]) -> WallClock:
        """The clock of a snapshot: the index of published times, and what `as_data` gave."""
        clock = cls(nodes)
        if times is not None:
            root, count = times
            clock.told = OrderedIndex(root, nodes, count=count, unpack=_time)
        try:
            clock.count = _number(data["count"])
            clock.spacing, clock.frames = _spacing_of(data["spacing"]), _spacing_of(data["frames"])
        except (KeyError, TypeError, ValueError) as damage:
            raise Corrupted(
                "kernel.wall_clock_damaged", "the wall clock of a snapshot is not one: {reason}",
                reason=str(damage),
            ) from damage  # fmt: skip
        return clock

    def as_data(self) -> dict[str, Any]:
        """What a snapshot keeps of it beside the index."""
        return {
            "count": self.count, "spacing": _spacing_data(self.spacing), "frames": _spacing_data(self.frames),
        }  # fmt: skip

    def find(self, beat: int) -> Generator[Need, None, int | None]:
        """The time that was published for a beat."""
        return (yield from self.told.get(_key(beat)))

    def publish(self, beat: int, ns: int) -> None:
        """A beat has a time; it had none."""
        self.told.insert(_key(beat), ns)
        self.count += 1
        self.spacing.add(beat, ns)

    def set_window(self, window: int) -> None:
        """Keep this many intervals."""
        for spacing in (self.spacing, self.frames):
            spacing.set_window(window)

    def settle(self, beat: int, now_ns: int) -> None:
        """A beat that has a frame ends."""
        self.frames.add(beat, now_ns)

    @property
    def intervals(self) -> list[tuple[int, int]]:
        """The intervals that count: those of published beats if there are any."""
        return (self.frames if self.spacing.beat is None else self.spacing).intervals


def _key(beat: int) -> bytes:
    return beat.to_bytes(_BEAT_BYTES, "big")


def _time(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Corrupted(
            "kernel.wall_clock_damaged", "a beat's time is not one: {reason}", reason=repr(value)[:200]
        )
    return value


def _spacing_data(spacing: Spacing) -> list[Any]:
    return [spacing.window, spacing.beat, spacing.ns, [list(each) for each in spacing.intervals]]


def _spacing_of(data: Any) -> Spacing:
    window, beat, ns, intervals = data
    if not 0 < _number(window) <= WINDOW_MAX or len(intervals) > window:
        raise ValueError(f"a window of {window!r} for {len(intervals)} intervals")
    pairs = [(_number(at), _number(interval)) for at, interval in intervals]
    return Spacing(window, None if beat is None else _number(beat), _number(ns), pairs)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number from 0")
    return value
