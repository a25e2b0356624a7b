"""A world as one CAR file: its journal as far as it is kept, snapshots, code, schemas, and all they link.

The file is of one moment: the head that was read first. It is written beside its name and renamed when it is
whole. A pin keeps the snapshots meanwhile, whatever the world drops; frames come from rows and segments.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cellule.errors import Corrupted, Gone, Rejected
from cellule.host.archive.car import block_head, header_bytes
from cellule.host.archive.document import PAGE_FRAMES, WorldDocument, page_block
from cellule.host.journal import Head, Journal, Progress
from cellule.host.limits import CAR_BLOCKS_MAX, CAR_PIECE_BYTES, EXPORT_PIN_S, EXPORT_READ
from cellule.host.own.directory import WorldInfo, baseline_of
from cellule.host.storage.pins import Pins
from cellule.host.storage.snapshot_list import KeptSnapshot, kept_snapshots
from cellule.kernel.journal.frame import first_height
from cellule.kernel.journal.links import Links, links_of_block, links_of_frame
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


class CarWriter:
    """Writes a CAR file beside its name; the name is its own once `finish` was called."""

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise Rejected(
                "archive.exists", "{path} exists already", path=str(path), hint="Name another file."
            )
        self.path = path
        self._draft = path.with_name(f".{path.name}.part")
        try:
            self._file: IO[bytes] = self._draft.open("wb")
        except OSError as error:
            raise Rejected(
                "archive.file", "{path} cannot be written: {why}", path=str(path), why=error.strerror or error
            ) from error
        self.seen: set[Cid] = set()
        self.size = 0

    async def begin(self, root: Cid) -> None:
        """Write the header."""
        await self._write(header_bytes(root))

    async def add(self, cid: Cid, data: bytes) -> None:
        """Write a block, once."""
        if cid not in self.seen:
            self.seen.add(cid)
            await self._write(block_head(cid, len(data)) + data)

    async def add_stream(self, cid: Cid, size: int, pieces: AsyncIterator[bytes]) -> None:
        """Write a long block, once."""
        if cid in self.seen:
            return
        self.seen.add(cid)
        await self._write(block_head(cid, size))
        async for piece in pieces:
            await self._write(piece)

    def finish(self) -> None:
        """Make the file durable under its name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._draft.rename(self.path)

    def drop(self) -> None:
        """Remove what was written, unless it was finished."""
        self._file.close()
        self._draft.unlink(missing_ok=True)

    async def _write(self, data: bytes) -> None:
        self._file.write(data)
        if (self.size + len(data)) // CAR_PIECE_BYTES > self.size // CAR_PIECE_BYTES:
            await asyncio.sleep(0)  # others get their turn
        self.size += len(data)


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
        await self._walk(writer, found)
        writer.finish()
        return Exported(writer.path, cid_of(root), head.height, first, count, len(writer.seen), writer.size)

    async def _head(self, info: WorldInfo) -> tuple[Head, int]:
        rows = [keys.world_head(info.universe, info.id), keys.world_baseline(info.universe, info.id)]
        head, baseline = await self.engine.read(rows)
        if head is None or baseline is None:
            raise Gone("host.world_gone", "world {world} was deleted", world=info.name)
        return Head.of_row(head), baseline_of(baseline)[0]

    async def _walk(self, writer: CarWriter, found: Links) -> None:
        """Write everything that is linked; what only a user's value links may be absent."""
        needed = set(found.ours)
        waiting = [*found.ours, *found.users]
        seen = set(waiting)
        while waiting:
            page, waiting = waiting[-EXPORT_READ:], waiting[:-EXPORT_READ]
            there = set(await self.cas.present(page))
            lost = [cid for cid in page if cid not in there and cid in needed]
            if lost:
                raise _lost(lost[0])
            nodes = await self.cas.get_many([cid for cid in there if cid.codec == "dag-cbor"])
            for cid in page:
                if cid in nodes:
                    await writer.add(cid, nodes[cid])
                    links = links_of_block(nodes[cid])
                    needed |= links.ours
                    waiting += _new(seen, (*links.ours, *links.users))
                elif cid in there:
                    await self._blob(writer, cid)
            if len(seen) > CAR_BLOCKS_MAX:
                raise Rejected(
                    "archive.blocks_max", "an export has at most {most} blocks", most=CAR_BLOCKS_MAX,
                    hint="Use `cellule backup`, which copies whole stores.",
                )  # fmt: skip

    async def _blob(self, writer: CarWriter, cid: Cid) -> None:
        entry = await self.cas.entry(cid)
        if entry is None:
            raise _lost(cid)
        async with self.cas.open_verified(cid) as file:

            async def pieces() -> AsyncIterator[bytes]:
                while piece := file.read(CAR_PIECE_BYTES):
                    yield piece

            await writer.add_stream(cid, entry.size, pieces())


def _new(seen: set[Cid], cids: Iterable[Cid]) -> list[Cid]:
    fresh = [cid for cid in cids if cid not in seen]
    seen.update(fresh)
    return fresh


def _lost(cid: Cid) -> Corrupted:
    return Corrupted(
        "archive.block_lost", "the block {cid} is linked and not stored", cid=str(cid),
        hint="Run `cellule check`, and restore a backup. Nothing was written.",
    )  # fmt: skip
