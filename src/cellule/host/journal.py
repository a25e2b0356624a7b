"""A world's journal in the engine: frames by their last height, long ones in parts.

    head     = {beat, frame, height, wake}       frame = the digest of the newest frame, wake = earliest timer
    journal/<height>          the frame, or its first part
    journal/<height>/<part>   further parts, from 1

Reading goes forward from a height and checks that frames are contiguous. Writing is not here: the rows of a
frame belong to the batch that also moves the head.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.errors import Corrupted
from cellule.host.limits import FRAME_PART_BYTES, FRAMES_PAGE
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.values.cbor import decode, encode_flat

Progress = Callable[[int, int], None]  # of how many, how many are done


@dataclass(frozen=True, slots=True)
class Head:
    """The newest committed frame of a world."""

    height: int
    beat: int
    frame: bytes | None
    wake_ns: int | None = None

    def row(self) -> bytes:
        """The stored row."""
        return encode_flat(
            {"beat": self.beat, "frame": self.frame, "height": self.height, "wake": self.wake_ns}
        )

    @classmethod
    def of_row(cls, stored: bytes) -> Head:
        """Read a stored row."""
        row: Any = decode(stored)
        return cls(row["height"], row["beat"], row["frame"], row["wake"])


def frame_rows(universe: UUID, world: UUID, last: int, frame: bytes) -> dict[bytes, bytes]:
    """The rows of a frame whose last record has height `last`."""
    rows = {keys.journal(universe, world, last): frame[:FRAME_PART_BYTES]}
    for part, at in enumerate(range(FRAME_PART_BYTES, len(frame), FRAME_PART_BYTES), 1):
        rows[keys.journal_part(universe, world, last, part)] = frame[at : at + FRAME_PART_BYTES]
    return rows


async def read_frames(
    engine: Engine, universe: UUID, world: UUID, first: int, last: int
) -> AsyncIterator[tuple[int, bytes]]:
    """The frames that hold heights `first` to `last`, oldest first, each with its last height.

    The head row says where the journal ends: rows above `last` are not looked at. A frame's parts are read
    together with it, because its rows were written in one batch.
    """
    begin, end = keys.journal_range(universe, world, first, last)
    held: list[bytes] = []
    height = 0
    while True:
        page = await engine.scan(begin, end, limit=FRAMES_PAGE)
        for key, value in page.items:
            found = keys.journal_height(key)
            if found != height and held:
                yield height, b"".join(held)
                held = []
            height = found
            held.append(value)
        if not page.more:
            break
        begin = page.items[-1][0] + b"\0"
    if held:
        yield height, b"".join(held)


async def read_frames_back(
    engine: Engine, universe: UUID, world: UUID, last: int
) -> AsyncIterator[tuple[int, bytes]]:
    """The frames whose last heights are at or below `last`, newest first, each with its last height."""
    begin, end = keys.journal_range(universe, world, 0, last)
    held: list[bytes] = []
    height = 0
    while True:
        page = await engine.scan(begin, end, limit=FRAMES_PAGE, reverse=True)
        for key, value in page.items:
            found = keys.journal_height(key)
            if found != height and held:
                yield height, b"".join(reversed(held))
                held = []
            height = found
            held.append(value)
        if not page.more:
            break
        end = page.items[-1][0]
    if held:
        yield height, b"".join(reversed(held))


async def frame_at(engine: Engine, universe: UUID, world: UUID, height: int, head: int) -> tuple[int, bytes]:
    """The frame that holds the record at `height`."""
    begin, end = keys.journal_range(universe, world, height, head)
    page = await engine.scan(begin, end, limit=1)
    if not page.items:
        raise Corrupted(
            "host.frame_missing", "world {world}: no frame holds height {height}", world=world, height=height
        )
    last = keys.journal_height(page.items[0][0])
    async for found, frame in read_frames(engine, universe, world, last, last):
        return found, frame
    raise Corrupted("host.frame_missing", "world {world}: frame {height} is gone", world=world, height=last)
