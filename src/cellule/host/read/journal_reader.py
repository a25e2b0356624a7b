"""The journal of a world, decoded: frames by a height, by a stretch of heights, and by time.

Everything that reads the past on a node reads it here; what stands in the engine, and in which rows, is known
to `host/journal.py` alone. Only what is durable is read: the head says where the journal ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

from cellule.errors import Rejected
from cellule.host.journal import Head, Journal
from cellule.host.limits import FRAMES_KEPT
from cellule.host.own.directory import WorldInfo, read_head
from cellule.kernel.journal.frame import Frame, decode_frame, first_height
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.values.cid import Cid


class JournalReader:
    """Reads the frames of one world; `check` refuses where the engine is not that of its address any more."""

    def __init__(
        self, engine: Engine, cas: Cas, info: WorldInfo, check: Callable[[], None] = lambda: None
    ) -> None:
        self._engine = engine
        self._journal = Journal(engine, cas, info.lineage)
        self._info = info
        self._check = check
        self._kept: OrderedDict[int, Frame] = OrderedDict()

    async def head(self) -> Head:
        """The newest durable frame."""
        head = await read_head(self._engine, self._info)
        self._check()
        return head

    async def frame(self, height: int, head: Head | None = None) -> Frame:
        """The frame that holds a height; `Rejected` beyond the journal, which ends at `head`."""
        head = head or await self.head()
        if not 1 <= height <= head.height:
            raise Rejected(
                "host.height", "height {at} is not in the journal of world {world}, which ends at {height}",
                at=height, world=self._info.name, height=head.height,
            )  # fmt: skip
        for last, kept in self._kept.items():
            if kept.header.first <= height <= last:
                self._kept.move_to_end(last)
                return kept
        last, data = await self._journal.frame_at(height, head.height)
        frame = decode_frame(data, lazy=True)
        if not frame.header.first <= height <= frame.header.last:
            raise await self._journal.missing(height)
        self._kept[last] = frame
        if len(self._kept) > FRAMES_KEPT:
            self._kept.popitem(last=False)
        return frame

    async def first_of(self, height: int, head: Head) -> int:
        """The first height of the frame that holds a height; the frame is not decoded for it."""
        _, data = await self._journal.frame_at(height, head.height)
        found = first_height(data)
        return (await self.frame(height, head)).header.first if found is None else found

    async def backwards(self, last: int) -> AsyncIterator[tuple[int, bytes]]:
        """The frames that begin at or below a height, newest first, as bytes, each with its last height."""
        head = await self.head()
        if not 1 <= last <= head.height:
            return
        newest, data = await self._journal.frame_at(last, head.height)
        yield newest, data
        async for height, data in self._journal.frames_back(newest - 1):
            yield height, data

    async def frames(self, first: int, last: int) -> AsyncIterator[Frame]:
        """The frames whose last heights lie between these two, oldest first; `Corrupted` where one misses."""
        async for _, data in self._journal.frames(first, last):
            yield decode_frame(data)

    async def snapshot_height(self, root: Cid) -> int | None:
        """The height of a kept snapshot; None where no such one is kept."""
        return await self._journal.snapshot_height(root)

    async def height_at(self, time_ns: int) -> int:
        """The last height of the newest frame made at or before `time_ns`; 0 before the first.

        Frames' times never go back, so this is a search by halves: it reads as many frames as the height has
        binary digits.
        """
        head = await self.head()
        known, above = 0, head.height + 1  # `known` is at or before the time; `above` starts a frame after it
        while known + 1 < above:
            header = (await self.frame((known + above) // 2, head)).header
            if header.now_ns <= time_ns:
                known = header.last
            else:
                above = header.first
        return known

    async def frame_of_beat(self, beat: int) -> Frame | None:
        """The frame of a beat, found by halves like `height_at`; None for one that has not been."""
        head = await self.head()
        first, last = 1, head.height
        while 0 < beat <= head.beat and first <= last:
            frame = await self.frame((first + last) // 2, head)
            if frame.header.beat == beat:
                return frame
            if frame.header.beat < beat:
                first = frame.header.last + 1
            else:
                last = frame.header.first - 1
        return None


def nanoseconds_of(when: datetime) -> int:
    """An aware time as nanoseconds since the Unix epoch; `Rejected` for one whose zone gives no offset."""
    try:
        since = datetime.__sub__(when, datetime(1970, 1, 1, tzinfo=UTC))
    except Exception as error:
        shown = datetime.isoformat(datetime.replace(when, tzinfo=None)) if type(when) is datetime else "it"
        raise Rejected(
            "host.naive_time", "{when} has no time zone", when=shown, hint="Use an aware datetime."
        ) from error
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
