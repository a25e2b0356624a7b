"""Segments: runs of old frames that left the rows of the journal, and where they are now.

    segments/<last>  = {first, last, bytes, segment: Link, links?: Link}    heights, and where the frames are
    segments/<last>  = {first, last}                          what was dropped for ever, at the lower end

    links  = the node [Link] of all that the frames link; without it they link nothing
    block  = "CELLSEG0" | for each frame: last height, 8 bytes | length, 4 bytes | the frame    (big-endian)

The block is a raw one of the CAS: it is proven when it is read, kept with large bodies, and collected once no
row links it. What moves frames there is not here.

Rejected: objects beside the CAS, with a checksum in the row. They would be a second way to keep, copy, verify
and collect large bodies, and one that failed half-way would leave objects that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from cellule.errors import CelluleError, Corrupted
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link

MAGIC: Final = b"CELLSEG0"
_HEAD_BYTES = 12


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of heights that left the journal's rows; without a `block` it is gone for ever."""

    first: int
    last: int
    size: int = 0
    block: Cid | None = None
    links: Cid | None = None

    def row(self) -> bytes:
        """The stored row."""
        row: dict[str, Any] = {"first": self.first, "last": self.last}
        if self.block is not None:
            row |= {"bytes": self.size, "segment": Link(self.block)}
        if self.links is not None:
            row["links"] = Link(self.links)
        return encode(row)

    @classmethod
    def of_row(cls, stored: bytes) -> Segment:
        """Read a stored row; `Corrupted` where it is none."""
        try:
            row: Any = decode(stored)
            block, links = (each and each.cid for each in (row.get("segment"), row.get("links")))
            found = cls(row["first"], row["last"], row.get("bytes", 0), block, links)
            if not 1 <= found.first <= found.last:
                raise ValueError(f"it is of heights {found.first} to {found.last}")
        except (CelluleError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise Corrupted(
                "host.segment_row", "the row of a segment cannot be read: {why}", why=error,
                hint="Keep a copy of the store, run `cellule check`, and restore a backup.",
            ) from error  # fmt: skip
        return found


def segment_bytes(frames: Iterable[tuple[int, bytes]]) -> bytes:
    """The block of these frames, each with its last height, in their order."""
    parts = [MAGIC]
    for last, frame in frames:
        parts += [last.to_bytes(8, "big"), len(frame).to_bytes(4, "big"), frame]
    return b"".join(parts)


def read_segment(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The frames of a block, oldest first, each with its last height; `Corrupted` where it is none."""
    if not data.startswith(MAGIC):
        raise _damaged("it does not begin as one")
    at = len(MAGIC)
    while at < len(data):
        last, size = int.from_bytes(data[at : at + 8], "big"), int.from_bytes(data[at + 8 : at + 12], "big")
        at += _HEAD_BYTES + size
        if at > len(data):
            raise _damaged("it ends in the middle of a frame")
        yield last, data[at - size : at]


def _damaged(what: str) -> Corrupted:
    return Corrupted("host.segment_damaged", "a segment of the journal is damaged: {what}", what=what)
