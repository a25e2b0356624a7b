"""Compaction: frames that restore does not need leave the rows for segments, in steps that may stop anywhere.

    1. frames below the baseline, about 4 MB of them, are proven to follow each other, and put as one block
    2. one batch, which expects the baseline, sets the segment's row
    3. batches that expect the baseline and that row clear the frames' rows

Until 2 nothing has changed, and the block is garbage; after it a frame may stand in both places, and readers
do not mind. What is left to clear is cleared by the next compaction. Any process may compact: a second one
meets the first at the row of the segment. Dropping history for ever is `history.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cellule.errors import Conflict, Corrupted, Gone, Unavailable
from cellule.host.journal import Head
from cellule.host.limits import ATTEMPTS_MAX, SEGMENT_BYTES, SEGMENT_BYTES_MIN, SEGMENT_CLEAR_BYTES
from cellule.host.own.directory import WorldInfo, baseline_of
from cellule.host.segments import Segment, segment_bytes
from cellule.host.storage.policy import StoragePolicy
from cellule.host.storage.share import TimeShare
from cellule.host.storage.tail import tail_frames
from cellule.kernel.journal.frame import decode_frame, read_header
from cellule.kernel.journal.links import links_of_frame
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.cas import OVERTAKEN_ROOT, Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link, Value


@dataclass(slots=True)
class Compacted:
    """What a compaction did."""

    segments: int = 0
    frames: int = 0
    bytes: int = 0
    archived: int = 0  # the last height that is in segments now
    dropped: int = 0  # the last height that is gone for ever


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a world that compaction depends on, of one moment."""

    baseline: bytes
    height: int  # of the baseline
    head: int
    segment: bytes | None  # the newest row of a segment
    archived: int  # its last height, or the height that the world was forked at


@dataclass(slots=True)
class _Run:
    """Frames that are to become one segment."""

    frames: list[tuple[int, bytes]]
    first: int
    size: int
    links: set[Cid]

    @property
    def last(self) -> int:
        return self.frames[-1][0]


@dataclass(slots=True)
class Compactor:
    """Compacts worlds of one store."""

    engine: Engine
    cas: Cas
    clock: Clock
    policy: StoragePolicy
    share: float = 1.0  # of the time it may take; the rest is left to the worlds

    async def compact(self, info: WorldInfo, *, everything: bool = False) -> Compacted:
        """Move what is old enough, or with `everything` all that is below the baseline."""
        done = Compacted()
        rows = await self._rows(info)
        await self._clear(info, rows)
        upto = rows.height if everything else await self._upto(info, rows)
        least, time = 1 if everything else SEGMENT_BYTES_MIN, TimeShare(self.clock, self.share)
        while rows.archived < upto:
            try:
                run = await self._gather(info, rows.archived + 1, upto)
            except Corrupted:
                now = await self._rows(info)
                if now.archived == rows.archived:
                    raise
                rows = now  # no gap: another process moved these frames meanwhile
                continue
            if run is None or run.size < least:
                break
            rows = await self._archive(info, rows, run)
            await self._clear(info, rows)
            done.segments += 1
            done.frames += len(run.frames)
            done.bytes += run.size
            await time.rest()
        done.archived = rows.archived
        return done

    async def _rows(self, info: WorldInfo) -> _Rows:
        owner = (info.universe, info.id)
        begin, end = keys.segment_range(*owner)
        page = await self.engine.scan(begin, end, limit=1, reverse=True)
        baseline, head = await self.engine.read([keys.world_baseline(*owner), keys.world_head(*owner)])
        if baseline is None or head is None:
            raise Gone("host.world_gone", "world {world} was deleted", world=info.name)
        segment = page.items[0][1] if page.items else None
        archived = info.lineage.fork_height if segment is None else Segment.of_row(segment).last
        return _Rows(baseline, baseline_of(baseline)[0], Head.of_row(head).height, segment, archived)

    async def _upto(self, info: WorldInfo, rows: _Rows) -> int:
        """The last height that may leave the rows: it is below the baseline, and old or far from the head."""
        far = rows.head - self.policy.tail_records
        upto = min(max(far, rows.archived), rows.height)
        before_ns = self.clock.now_ns() - int(self.policy.tail_s * 1e9)
        async for last, frame in tail_frames(self.engine, info.universe, info.id, upto + 1, rows.height):
            if read_header(frame, cid_of(frame)).now_ns >= before_ns:
                break
            upto = last
        return upto

    async def _gather(self, info: WorldInfo, first: int, upto: int) -> _Run | None:
        """The next frames, proven to follow each other; they are never archived with a gap."""
        run = _Run([], first, 0, set())
        digest: bytes | None = None
        at = first
        async for last, frame in tail_frames(self.engine, info.universe, info.id, first, upto):
            cid = cid_of(frame)
            header = read_header(frame, cid)
            if header.first != at or header.last != last or (digest is not None and header.prev != digest):
                raise _broken(info, at)
            run.frames.append((last, frame))
            run.size += len(frame)
            found = links_of_frame(frame)
            run.links |= found.ours | found.users
            digest, at = cid.digest, last + 1
            if run.size >= SEGMENT_BYTES:
                break
        if not run.frames:
            return None
        decode_frame(run.frames[-1][1], lazy=True)  # the others are proven by the ones that follow them
        return run

    async def _archive(self, info: WorldInfo, rows: _Rows, run: _Run) -> _Rows:
        """Put the frames as a block, and set its row."""
        owner = (info.universe, info.id)
        segment_key = keys.segment(*owner, run.last)
        for _ in range(ATTEMPTS_MAX):
            before = {} if rows.segment is None else {keys.segment(*owner, rows.archived): rows.segment}
            since = await self.cas.generation()
            block = await self.cas.put(segment_bytes(run.frames), "raw")
            links: Cid | None = None
            if run.links:
                listed: list[Value] = [Link(cid) for cid in sorted(run.links)]
                links = await self.cas.put(encode(listed), trusted=True)
            row = Segment(run.first, run.last, run.size, block, links).row()
            expect = {keys.world_baseline(*owner): rows.baseline, segment_key: None, **before}
            try:
                parts = await self.cas.witness(since)
                await self.engine.commit(parts.into(Batch(expect=expect, set={segment_key: row})))
            except Conflict:
                now = await self._rows(info)
                if now.archived != rows.archived:
                    return now  # another process was faster; what it archived is cleared next time
                rows = now
                continue
            except Unavailable as error:
                if error.code != OVERTAKEN_ROOT:
                    raise
                continue  # two collections began meanwhile: both blocks are put again
            return _Rows(rows.baseline, rows.height, rows.head, row, run.last)
        raise _contended(info)

    async def _clear(self, info: WorldInfo, rows: _Rows) -> None:
        """Clear the rows of frames that are in segments, some at a time."""
        owner = (info.universe, info.id)
        while rows.segment is not None:
            heights = await self._some(info, rows.archived)
            if heights is None:
                return
            expect = {
                keys.world_baseline(*owner): rows.baseline,
                keys.segment(*owner, rows.archived): rows.segment,
            }
            try:
                begin, end = keys.journal_range(*owner, *heights)
                await self.engine.commit(Batch(expect=expect, clear_range=[(begin, end)]))
            except Conflict:
                rows = await self._rows(info)

    async def _some(self, info: WorldInfo, last: int) -> tuple[int, int] | None:
        """The heights of the oldest frames in rows up to `last`: as many as go in one batch."""
        first, until, size = None, 0, 0
        async for height, frame in tail_frames(self.engine, info.universe, info.id, 0, last):
            first = height if first is None else first
            until, size = height, size + len(frame)
            if size >= SEGMENT_CLEAR_BYTES:
                break
        return None if first is None else (first, until)


def _broken(info: WorldInfo, height: int) -> Corrupted:
    return Corrupted(
        "host.frame_missing", "world {world}: no frame holds height {height}", world=info.name, height=height,
        hint="Nothing was moved. Keep a copy of the store, run `cellule check`, and restore a backup.",
    )  # fmt: skip


def _contended(info: WorldInfo) -> Unavailable:
    return Unavailable(
        "host.compaction_contended", "the baseline of world {world} moves again and again", world=info.name,
        hint="Nothing was moved; try again.",
    )  # fmt: skip
