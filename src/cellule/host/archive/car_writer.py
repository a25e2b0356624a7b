"""Writing CAR files: blocks go to a draft, which gets the name once it is whole and durable."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import IO

from cellule.errors import Corrupted, Rejected
from cellule.host.archive.car import block_head, header_bytes
from cellule.host.limits import CAR_BLOCKS_MAX, CAR_PIECE_BYTES, EXPORT_READ
from cellule.kernel.journal.links import Links, links_of_block
from cellule.store.cas import Cas
from cellule.values.cid import Cid, cid_of


class CarWriter:
    """Writes a CAR file beside its name; the name is its own once `finish` was called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.exists():
                raise Rejected(
                    "archive.exists", "{path} exists already", path=str(path), hint="Name another file."
                )
            self._draft = path.with_name(f".{path.name}.part")
            # What a world holds is for this user alone, as its data folder is.
            draft = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            os.fchmod(draft, 0o600)  # one that was left behind may be of another time
            self._file: IO[bytes] = os.fdopen(draft, "wb")
        except (OSError, ValueError) as error:  # a name that no file can have
            raise Rejected(
                "archive.file",
                "{path} cannot be written: {why}",
                path=str(path),
                why=getattr(error, "strerror", error),
            ) from error
        self.seen: set[Cid] = set()
        self.size = 0

    async def begin(self, root: Cid) -> None:
        """Write the header; where the root is known last, any other until then."""
        await self._write(header_bytes(root))

    async def add(self, cid: Cid, data: bytes) -> None:
        """Write a block, once."""
        if cid not in self.seen:
            self.seen.add(cid)
            await self._write(block_head(cid, len(data)) + data)

    async def put(self, node: bytes) -> Cid:
        """Write a node; returns what it is called."""
        cid = cid_of(node)
        await self.add(cid, node)
        return cid

    async def add_stream(self, cid: Cid, size: int, pieces: AsyncIterator[bytes]) -> None:
        """Write a long block, once."""
        if cid in self.seen:
            return
        self.seen.add(cid)
        await self._write(block_head(cid, size))
        async for piece in pieces:
            await self._write(piece)

    def finish(self, root: Cid | None = None) -> None:
        """Make the file durable under its name, and with this root if it was begun with another."""
        if root is not None:
            self._file.seek(0)
            self._file.write(header_bytes(root))
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


async def write_linked(writer: CarWriter, cas: Cas, found: Links) -> None:
    """Write everything that is linked; what only a user's value links may be absent."""
    needed = set(found.ours)
    waiting = [*found.ours, *found.users]
    seen = set(waiting)
    while waiting:
        page, waiting = waiting[-EXPORT_READ:], waiting[:-EXPORT_READ]
        there = set(await cas.present(page))
        lost = [cid for cid in page if cid not in there and cid in needed]
        if lost:
            raise _lost(lost[0])
        nodes = await cas.get_many([cid for cid in there if cid.codec == "dag-cbor"])
        for cid in page:
            if cid in nodes:
                await writer.add(cid, nodes[cid])
                links = links_of_block(nodes[cid])
                needed |= links.ours
                waiting += _new(seen, (*links.ours, *links.users))
            elif cid in there:
                await _blob(writer, cas, cid)
        if len(seen) > CAR_BLOCKS_MAX:
            raise Rejected(
                "archive.blocks_max", "an export has at most {most} blocks", most=CAR_BLOCKS_MAX,
                hint="Use `cellule backup`, which copies whole stores.",
            )  # fmt: skip


async def _blob(writer: CarWriter, cas: Cas, cid: Cid) -> None:
    entry = await cas.entry(cid)
    if entry is None:
        raise _lost(cid)
    async with cas.open_verified(cid) as file:

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
