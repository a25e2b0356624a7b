"""The history of a world as frames: wherever they stand, every reader gets them from here.

    head     = {beat, frame, height, wake}       frame = the digest of the newest frame, wake = earliest timer
    journal/<height>          the frame, by its last height, or its first part
    journal/<height>/<part>   further parts, from 1

Newer frames are rows (the tail), older ones may be in segments, and those below a fork are the ancestors'.
Frames move into segments while others read: the segment's row comes first, then rows go. So a reader looks at
the tail, and where that does not go on at the height it has reached, at the segments. What was dropped for
ever is `Gone`, with the oldest height that is kept. Nothing is decoded here but a frame's first height.

Writing is not here: the rows of a frame belong to the batch that also moves the head.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import Corrupted, Gone, Rejected
from cellule.host.limits import FRAME_PART_BYTES, FRAMES_PAGE
from cellule.host.segments import Segment, read_segment
from cellule.kernel.journal.frame import first_height
from cellule.kernel.lineage import Lineage, Stretch
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import SCAN_LIMIT_MAX, Engine
from cellule.values.cbor import decode, encode_flat
from cellule.values.cid import Cid

Progress = Callable[[int, int], None]  # of how many, how many are done
LastAndFrame = tuple[int, bytes]
"""A frame, and the height of its last record."""


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


class KeptSnapshot(NamedTuple):
    """A snapshot that is kept: its height and root, and the key of its row."""

    height: int
    root: Cid
    row: bytes


class Journal:
    """Reads the frames of one world, and of its ancestors below the height it was forked at."""

    def __init__(self, engine: Engine, cas: Cas, lineage: Lineage) -> None:
        self._engine = engine
        self._cas = cas
        self.lineage = lineage
        self._kept: tuple[Cid, list[LastAndFrame]] | None = None  # the segment that was read last

    async def frames(self, first: int, last: int) -> AsyncIterator[LastAndFrame]:
        """The frames whose last heights are `first` to `last`, oldest first; raises where one is missing.

        Where the journal ends before `last`, so do they.
        """
        for stretch in self.lineage.stretches():
            at, end = max(first, stretch.first), last
            if stretch.last is not None:
                end = min(last, stretch.last)
            if at > end:
                continue
            async for found, frame in self._forward(stretch, at, end):
                if (first_height(frame) or 0) > at:
                    raise await self.missing(at)
                yield found, frame
                at = found + 1
            if at <= end and not await self._ends_before(stretch, at, end):
                raise await self.missing(at)

    async def _ends_before(self, stretch: Stretch, at: int, end: int) -> bool:
        """Tell whether no whole frame can hold `at`: one goes on behind `end`, or none was written yet."""
        if end == stretch.last:
            return False
        begin, until = keys.journal_range(self._cas.universe, stretch.world, at)
        page = await self._engine.scan(begin, until, limit=1)
        if page.items:
            key, part = page.items[0]
            return keys.journal_height(key) > end and (first_height(part) or 0) <= at
        if await self._segment(stretch, at) is not None:
            return True
        [head] = await self._engine.read([keys.world_head(self._cas.universe, stretch.world)])
        return head is not None and Head.of_row(head).height < at

    async def frames_back(self, last: int) -> AsyncIterator[LastAndFrame]:
        """The frames whose last heights are at or below `last`, newest first."""
        for stretch in reversed(self.lineage.stretches()):
            end = last if stretch.last is None else min(last, stretch.last)
            if stretch.first <= end:
                async for found in self._backward(stretch, end):
                    yield found

    async def frame_at(self, height: int, head: int) -> LastAndFrame:
        """The frame that holds the record at `height`; the journal ends at `head`."""
        stretch = next(each for each in self.lineage.stretches() if each.last is None or height <= each.last)
        end = head if stretch.last is None else min(head, stretch.last)
        begin, until = keys.journal_range(self._cas.universe, stretch.world, height, end)
        page = await self._engine.scan(begin, until, limit=1)
        if page.items:
            last = keys.journal_height(page.items[0][0])
            async for found in self._rows(stretch, last, last):
                if (first_height(found[1]) or 0) <= height:
                    return found
        # Not in the rows: compaction took it away, maybe since the look above.
        segment = await self._segment(stretch, height)
        for found in await self._in_segment(segment) if segment is not None else ():
            if found[0] >= height:
                return found
        raise await self.missing(height)

    async def snapshot_at(self, height: int) -> KeptSnapshot | None:
        """The newest kept snapshot at or below a height, of this world or of an ancestor."""
        for stretch in reversed(self.lineage.stretches()):
            last = height if stretch.last is None else min(height, stretch.last)
            begin, end = keys.snapshot_range(self._cas.universe, stretch.world, stretch.first - 1, last)
            page = await self._engine.scan(begin, end, limit=1, reverse=True) if begin < end else None
            if page is not None and page.items:
                key, value = page.items[0]
                return KeptSnapshot(keys.snapshot_height(key), Cid.of_bytes(value), key)
        return None

    async def snapshot_height(self, root: Cid) -> int | None:
        """The height of a kept snapshot, of this world or of an ancestor; None where no such one is kept."""
        for stretch in reversed(self.lineage.stretches()):
            begin, end = keys.snapshot_range(self._cas.universe, stretch.world, stretch.first - 1)
            page = await self._engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
            for key, value in page.items:
                height = keys.snapshot_height(key)
                if value == root and (stretch.last is None or height <= stretch.last):
                    return height
        return None

    async def oldest(self) -> int:
        """The oldest height that this world itself wrote and keeps, or the first that it will write."""
        stretch = self.lineage.stretches()[-1]
        segment = await self._segment(stretch, stretch.first)
        return stretch.first if segment is None or segment.block is not None else segment.last + 1

    async def start(self) -> KeptSnapshot | None:
        """The oldest snapshot of this world itself from which on it keeps all frames."""
        begin, end = keys.snapshot_range(self._cas.universe, self.lineage.world, await self.oldest() - 1)
        page = await self._engine.scan(begin, end, limit=1)
        if not page.items:
            return None
        key, value = page.items[0]
        return KeptSnapshot(keys.snapshot_height(key), Cid.of_bytes(value), key)

    async def missing(self, height: int) -> Corrupted | Gone:
        """Why no frame holds a height: the world that wrote it was deleted, or it was lost."""
        world = self.lineage.world_at(height)
        [gone] = await self._engine.read([keys.world_gone(self._cas.universe, world)])
        if gone is not None and world == self.lineage.world:
            return Gone("host.world_gone", "world {world} was deleted", world=world)
        if gone is not None:
            return Gone(
                "host.ancestor_gone", "height {height} was written by world {parent}, which was deleted",
                height=height, parent=world,
                hint=f"World {self.lineage.world} has its history from height "
                f"{self.lineage.fork_height + 1} on.",
            )  # fmt: skip
        return Corrupted(
            "host.frame_missing", "world {world}: no frame holds height {height}",
            world=self.lineage.world, height=height,
            hint="Keep a copy of the store, run `cellule check`, and restore a backup.",
        )  # fmt: skip

    # Of one world

    async def _forward(self, stretch: Stretch, first: int, last: int) -> AsyncIterator[LastAndFrame]:
        """The frames of one world, from the rows as long as they follow each other, else from segments."""
        at = first  # the next frame holds this height
        while at <= last:
            segment: Segment | None = None
            async for found, frame in self._rows(stretch, at, last):
                if (first_height(frame) or 0) > at and (segment := await self._segment(stretch, at)):
                    break
                yield found, frame
                at = found + 1
            else:
                segment = await self._segment(stretch, at) if at <= last else None
            if segment is None:
                return
            for found, frame in await self._in_segment(segment):
                if at <= found <= last:
                    yield found, frame
            at = segment.last + 1

    async def _backward(self, stretch: Stretch, last: int) -> AsyncIterator[LastAndFrame]:
        """The same, newest first."""
        at = last  # the next frame is the newest that ends at or below this height
        is_first = True
        while at >= stretch.first:
            segment: Segment | None = None
            async for found, frame in self._rows_back(stretch, at):
                if found < at and not is_first and (segment := await self._segment(stretch, at)):
                    break
                yield found, frame
                at, is_first = (first_height(frame) or found) - 1, False
            else:
                segment = await self._segment(stretch, at) if at >= stretch.first else None
            if segment is None:
                return
            for found, frame in reversed(await self._in_segment(segment)):
                if found <= at:
                    yield found, frame
            at, is_first = segment.first - 1, False

    async def _rows(self, stretch: Stretch, first: int, last: int) -> AsyncIterator[LastAndFrame]:
        """The frames in rows, up to one whose parts went between two pages.

        A frame's parts are written in one batch and go in one, so only the last of a page may lack some.
        """
        begin, end = keys.journal_range(self._cas.universe, stretch.world, first, last)
        parts: list[bytes] = []
        height, is_sure = 0, True
        while True:
            page = await self._engine.scan(begin, end, limit=FRAMES_PAGE)
            for key, value in page.items:
                found = keys.journal_height(key)
                if found != height and parts:
                    if not is_sure and not await self._has_row(stretch, height):
                        return
                    yield height, b"".join(parts)
                    parts = []
                height, is_sure = found, True
                parts.append(value)
            if not page.more:
                break
            begin = page.items[-1][0] + b"\0"
            # A part of full length may have a next one behind the end of this page.
            is_sure = len(parts[-1]) < FRAME_PART_BYTES
        if parts and (is_sure or await self._has_row(stretch, height)):
            yield height, b"".join(parts)

    async def _rows_back(self, stretch: Stretch, last: int) -> AsyncIterator[LastAndFrame]:
        """The same, newest first."""
        begin, end = keys.journal_range(self._cas.universe, stretch.world, 0, last)
        parts: list[bytes] = []
        height = 0
        while True:
            page = await self._engine.scan(begin, end, limit=FRAMES_PAGE, reverse=True)
            for key, value in page.items:
                found = keys.journal_height(key)
                if found != height and parts:
                    return  # its first parts went
                height = found
                parts.append(value)
                if key == keys.journal(self._cas.universe, stretch.world, height):
                    yield height, b"".join(reversed(parts))
                    parts = []
            if not page.more:
                return
            end = page.items[-1][0]

    async def _has_row(self, stretch: Stretch, height: int) -> bool:
        return (await self._engine.read([keys.journal(self._cas.universe, stretch.world, height)]))[
            0
        ] is not None

    async def _segment(self, stretch: Stretch, height: int) -> Segment | None:
        """The segment that holds a height, if one does."""
        begin, end = keys.segment_range(self._cas.universe, stretch.world, height)
        page = await self._engine.scan(begin, end, limit=1)
        found = Segment.of_row(page.items[0][1]) if page.items else None
        return found if found is not None and found.first <= height else None

    async def _in_segment(self, segment: Segment) -> list[LastAndFrame]:
        if segment.block is None:
            raise Gone(
                "host.history_gone", "heights {first} to {last} of world {world} were dropped for ever",
                first=segment.first, last=segment.last, world=self.lineage.world,
                hint=f"Its history is kept from height {segment.last + 1} on.",
            )  # fmt: skip
        if self._kept is None or self._kept[0] != segment.block:
            self._kept = segment.block, list(read_segment(await self._block_of(segment, segment.block)))
        return self._kept[1]

    async def _block_of(self, segment: Segment, block: Cid) -> bytes:
        try:
            return await self._cas.get(block)
        except Rejected as error:
            raise Corrupted(
                "host.segment_missing", "heights {first} to {last} of world {world} are missing: {why}",
                first=segment.first, last=segment.last, world=self.lineage.world, why=error,
                hint="Keep a copy of the store, run `cellule check`, and restore a backup.",
            ) from error  # fmt: skip
