"""The why-graph: every record names the height of what led to it.

Back from a record to the first event is a chain of causes. Forward is a walk over the frames behind it: it
ends when every delivery found has been stepped, or at a limit, which the answer then names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cellule.host.following import Follower
from cellule.host.journal import read_frames
from cellule.host.loading import read_head
from cellule.host.telling import Teller, Told
from cellule.kernel.frame import Frame, Record, decode_frame
from cellule.kernel.records import EMITTED, EVENT, HALTED, PARKED, STEP

FRAMES_MAX = 10_000  # frames looked through for effects
EFFECTS_MAX = 10_000  # records one answer holds


@dataclass(frozen=True, slots=True)
class Effects:
    """All that a record led to, oldest first; `complete` is False where the search was cut at `looked_to`."""

    records: list[Told]
    complete: bool
    looked_to: int


async def causes_of(teller: Teller, height: int) -> list[Told]:
    """The record at a height and what led to it, newest first; the last one came from outside."""
    chain = [await teller.at(height)]
    while chain[-1].cause:
        chain.append(await teller.at(chain[-1].cause))
    return chain


async def effects_of(follower: Follower, teller: Teller, height: int) -> Effects:
    """What the record at a height led to, directly and through others."""
    loader, info = follower.loader, follower.info
    first = (await teller.frame_with(height)).header.first
    head = await read_head(loader.engine, info)
    walk = _Walk(height)
    looked, looked_to = 0, height
    async for last, data in read_frames(loader.engine, info.universe, info.id, first, head.height):
        walk.take(decode_frame(data))
        looked, looked_to = looked + 1, last
        if not walk.open or looked >= FRAMES_MAX or len(walk.found) >= EFFECTS_MAX:
            break
    records = [await teller.at(found) for found in walk.found[:EFFECTS_MAX]]
    return Effects(records, not walk.open, looked_to)


@dataclass(slots=True)
class _Walk:
    """The heights that follow from `root`, and the deliveries among them that have no step yet."""

    root: int
    found: list[int] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    open: set[tuple[int, str, bytes]] = field(default_factory=set)

    def take(self, frame: Frame) -> None:
        """Look through one frame."""
        for position, record in enumerate(frame.records):
            height = frame.header.first + position
            if height == self.root:
                self.known.add(height)
                self._account(frame, height, record)
            elif record[1] in self.known:
                self.known.add(height)
                self.found.append(height)
                self._account(frame, height, record)

    def _account(self, frame: Frame, height: int, record: Record) -> None:
        if record[0] in (EVENT, EMITTED):
            self.open.update((height, frame.names[at], key) for at, key in record[5])
        elif record[0] == STEP and record[6] not in (HALTED, PARKED):
            self.open.discard((record[1], frame.names[record[2]], record[3]))
