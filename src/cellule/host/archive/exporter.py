"""A world as one CAR file: its journal as far as it is kept, snapshots, code, schemas, and all they link.

The file is of one moment: the head that was read first. It is written beside its name and renamed when it is
whole. A pin keeps the snapshots meanwhile, whatever the world drops; frames come from rows and segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cellule.errors import Gone
from cellule.host.archive.car_writer import CarWriter, write_linked
from cellule.host.archive.document import PAGE_FRAMES, WorldDocument, page_block
from cellule.host.journal import Head, Journal, Progress
from cellule.host.limits import EXPORT_PIN_S
from cellule.host.own.directory import WorldInfo, baseline_of
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


@dataclass(slots=True)
class Exporter:
    """Exports worlds of one universe."""

    engine: Engine
    cas: Cas
    pins: Pins
    clock: Clock

    async def export(self, info: WorldInfo, path: Path, progress: Progress | None = None) -> Exported:
        """Write a world to a new file."""
        snapshots = await kept_snapshots(self.engine, self.cas, info)
        async with self.pins.held([each.cid for each in snapshots], EXPORT_PIN_S, f"export of {info.name}"):
            writer = CarWriter(path)
            try:
                return await self._export(info, snapshots, writer, progress)
            finally:
                writer.drop()

    async def _export(
        self, info: WorldInfo, snapshots: list[KeptSnapshot], writer: CarWriter, progress: Progress | None
    ) -> Exported:
        head, baseline = await self._head(info)
        journal = Journal(self.engine, self.cas, info.lineage)
        first = await journal.oldest()
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
            info.name, info.id, info.created_ns, info.origin, self.clock.now_ns(), first, baseline, head,
            tuple((each.height, each.cid) for each in snapshots if each.height >= first - 1), tuple(pages),
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

    async def _head(self, info: WorldInfo) -> tuple[Head, int]:
        rows = [keys.world_head(info.universe, info.id), keys.world_baseline(info.universe, info.id)]
        head, baseline = await self.engine.read(rows)
        if head is None or baseline is None:
            raise Gone("host.world_gone", "world {world} was deleted", world=info.name)
        return Head.of_row(head), baseline_of(baseline)[0]
