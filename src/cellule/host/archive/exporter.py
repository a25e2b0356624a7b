"""A world as one CAR file: its journal as far as it is kept, snapshots, code, schemas, and all they link.

The file is of one moment: snapshots, the baseline among them, and a head that is no older than any. It is
written beside its name and renamed when it is whole. A pin keeps the snapshots meanwhile, whatever the world
drops; frames come from rows and segments, and one that is dropped meanwhile ends the export with `Gone`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from cellule.errors import Gone, Rejected, Unavailable
from cellule.host.archive.car_writer import CarWriter, write_linked
from cellule.host.archive.document import PAGE_FRAMES, WorldDocument, page_block
from cellule.host.journal import Head, Journal, Progress
from cellule.host.limits import ATTEMPTS_MAX, EXPORT_PIN_S
from cellule.host.own.directory import WorldInfo
from cellule.host.storage.pins import Pins
from cellule.host.storage.snapshot_list import KeptSnapshot, kept_snapshots
from cellule.kernel.journal.frame import first_height
from cellule.kernel.journal.links import Links, links_of_frame
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.values.cid import Cid, cid_of


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written."""

    path: Path
    root: Cid
    height: int
    first: int  # the oldest height in it
    frames: int
    blocks: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Moment:
    """Head, baseline and snapshots of a world that belong together: `first` is the oldest height it keeps."""

    head: Head
    baseline: int
    first: int
    snapshots: list[KeptSnapshot]


@dataclass(slots=True)
class Exporter:
    """Exports worlds of one universe."""

    engine: Engine
    cas: Cas
    pins: Pins
    clock: Clock

    async def export(self, info: WorldInfo, path: Path, progress: Progress | None = None) -> Exported:
        """Write a world to a new file."""
        for _ in range(ATTEMPTS_MAX):
            moment = await self._moment(info)
            if moment is None:
                continue
            roots = [each.cid for each in moment.snapshots]
            async with AsyncExitStack() as held:
                try:
                    await held.enter_async_context(
                        self.pins.held(roots, EXPORT_PIN_S, f"export of {info.name}")
                    )
                except Rejected as error:
                    if error.code != "cas.not_found":
                        raise
                    continue
                if not await self._are_kept(info, moment):
                    continue  # what they link may have gone before the pin was there
                writer = CarWriter(path)
                try:
                    return await self._export(info, moment, writer, progress)
                finally:
                    writer.drop()
        raise Unavailable(
            "archive.contended", "the snapshots of world {world} keep changing", world=info.name
        )

    async def _moment(self, info: WorldInfo) -> _Moment | None:
        """What belongs together; None where a snapshot was taken while it was read."""
        snapshots = await kept_snapshots(self.engine, self.cas, info)
        [head] = await self.engine.read([keys.world_head(info.universe, info.id)])
        if head is None:
            raise Gone("host.world_gone", "world {world} was deleted", world=info.name)
        first = await Journal(self.engine, self.cas, info.lineage).oldest()
        kept = [each for each in snapshots if each.height >= first - 1]
        baseline = next((each.height for each in kept if each.is_baseline), None)
        return None if baseline is None else _Moment(Head.of_row(head), baseline, first, kept)

    async def _are_kept(self, info: WorldInfo, moment: _Moment) -> bool:
        rows = [keys.snapshot(info.universe, info.id, each.height) for each in moment.snapshots]
        return None not in await self.engine.read(rows)

    async def _export(
        self, info: WorldInfo, moment: _Moment, writer: CarWriter, progress: Progress | None
    ) -> Exported:
        head, first = moment.head, moment.first
        journal = Journal(self.engine, self.cas, info.lineage)
        pages: list[tuple[int, Cid]] = []
        blocks: dict[Cid, bytes] = {}
        frames: list[tuple[int, Cid]] = []
        count = 0
        async for last, frame in journal.frames(first, head.height):
            if not count:
                first = first_height(frame) or first
            frames.append((last, cid_of(frame)))
            count += 1
            if len(frames) == PAGE_FRAMES or last == head.height:
                page = page_block(frames)
                pages.append((last, cid_of(page)))
                blocks[cid_of(page)] = page
                frames = []
        document = WorldDocument(
            info.name, info.id, info.created_ns, info.origin, self.clock.now_ns(), first, moment.baseline,
            head, tuple((each.height, each.cid) for each in moment.snapshots), tuple(pages),
        )  # fmt: skip
        root = document.encode()
        await writer.begin(cid_of(root))
        await writer.add(cid_of(root), root)
        for cid, page in blocks.items():
            await writer.add(cid, page)
        found = Links(document.needed, set())
        async for last, frame in journal.frames(first, head.height):
            await writer.add(cid_of(frame), frame)
            links = links_of_frame(frame)
            found.ours.update(links.ours)
            found.users.update(links.users)
            if progress is not None:
                progress(last, head.height)
        await write_linked(writer, self.cas, found)
        writer.finish()
        return Exported(writer.path, cid_of(root), head.height, first, count, len(writer.seen), writer.size)
