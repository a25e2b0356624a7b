"""CAR files (version 1): blocks by their CIDs in one file, which any IPLD tool reads.

    file    = varint(length) | header | block, again and again
    header  = DAG-CBOR {roots: [CID], version: 1}
    block   = varint(length of both) | CID | bytes

A file is indexed before anything of it is used: every block is hashed and every node decoded, and what is too
long, cut off, of another hash or codec, or not what its CID says is refused with its place. Nothing in a file
is a path, and blocks are found by CID alone. For one thread at a time; the file is read again later, and
proven again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from cellule.errors import Rejected
from cellule.host.limits import CAR_BLOB_BYTES_MAX, CAR_BLOCKS_MAX, CAR_HEADER_BYTES_MAX, CAR_PIECE_BYTES
from cellule.values.cbor import decode, encode
from cellule.values.cid import CID_BYTES, Cid, cid_of
from cellule.values.limits import BYTES_MAX
from cellule.values.link import Link

VARINT_BYTES_MAX = 9


@dataclass(frozen=True, slots=True)
class Place:
    """Where the bytes of a block are in the file."""

    offset: int
    size: int


def header_bytes(root: Cid) -> bytes:
    """What a file begins with."""
    header = encode({"roots": [Link(root)], "version": 1})
    return varint(len(header)) + header


def block_head(cid: Cid, size: int) -> bytes:
    """What stands before the bytes of a block."""
    return varint(CID_BYTES + size) + bytes(cid)


def varint(number: int) -> bytes:
    """An unsigned number in groups of seven bits, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


class CarFile:
    """An indexed file: reads like the objects of a universe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: IO[bytes] = path.open("rb")
        except OSError as error:
            raise Rejected(
                "archive.file", "{path} cannot be read: {why}", path=str(path), why=error.strerror or error
            ) from error
        self._size = path.stat().st_size
        self.places: dict[Cid, Place] = {}
        try:
            self.root = self._header()
            self._index()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read(self, cid: Cid) -> bytes:
        """The bytes of a block, proven once more; `Rejected` where the file has none."""
        place = self.places.get(cid)
        if place is None:
            raise Rejected(
                "archive.block_missing", "{path} has no block {cid}", path=self._name, cid=str(cid)
            )
        self._file.seek(place.offset)
        data = self._file.read(place.size)
        if cid_of(data, codec=cid.codec) != cid:
            raise self._broken(place.offset, f"the block is not {cid} any more: the file has changed")
        return data

    def pieces(self, cid: Cid) -> Iterator[bytes]:
        """The bytes of a block in pieces; whoever puts them proves them."""
        place = self.places[cid]
        for start in range(0, place.size, CAR_PIECE_BYTES):
            self._file.seek(place.offset + start)
            yield self._file.read(min(CAR_PIECE_BYTES, place.size - start))

    async def get(self, cid: Cid) -> bytes:
        """As `Cas.get`."""
        return self.read(cid)

    async def get_many(self, cids: Iterable[Cid]) -> dict[Cid, bytes]:
        """As `Cas.get_many`."""
        return {cid: self.read(cid) for cid in cids}

    async def present(self, cids: Sequence[Cid]) -> tuple[Cid, ...]:
        """As `Cas.present`."""
        return tuple(cid for cid in cids if cid in self.places)

    @property
    def _name(self) -> str:
        return self.path.name

    def _header(self) -> Cid:
        size = self._varint()
        if size is None or not 0 < size <= CAR_HEADER_BYTES_MAX:
            raise self._broken(0, "it does not begin with the header of a CAR file")
        try:
            header: Any = decode(self._exactly(size, "the header"))
        except Rejected as error:
            raise self._broken(0, f"its header is no DAG-CBOR: {error}") from error
        match header:
            case {"roots": [Link() as root], "version": 1}:
                return root.cid
        raise self._broken(0, "it is not of CAR version 1 with one root")

    def _index(self) -> None:
        while True:
            at = self._file.tell()
            size = self._varint()
            if size is None:
                break
            if len(self.places) >= CAR_BLOCKS_MAX:
                raise self._broken(at, f"it has more than {CAR_BLOCKS_MAX} blocks")
            self._block(at, size)
        if self.root not in self.places:
            raise self._broken(0, f"its root {self.root} is not in it")

    def _block(self, at: int, size: int) -> None:
        if size < CID_BYTES:
            raise self._broken(at, "a block is shorter than a CID")
        try:
            cid = Cid.of_bytes(self._exactly(CID_BYTES, "a CID"))
        except Rejected as error:
            raise self._broken(at, f"a block has a CID of another kind: {error}") from error
        place = Place(self._file.tell(), size - CID_BYTES)
        most = BYTES_MAX if cid.codec == "dag-cbor" else CAR_BLOB_BYTES_MAX
        if place.size > most or place.offset + place.size > self._size:
            raise self._broken(at, f"a block of {place.size} bytes is too long, or cut off")
        self._prove(at, cid, place)
        self.places[cid] = place

    def _prove(self, at: int, cid: Cid, place: Place) -> None:
        if cid.codec == "dag-cbor":
            data = self._exactly(place.size, "a block")
            if cid_of(data) != cid:
                raise self._broken(at, f"the bytes of block {cid} have another hash")
            try:
                decode(data)
            except Rejected as error:
                raise self._broken(at, f"block {cid} is no canonical DAG-CBOR: {error}") from error
            return
        digest = sha256()
        left = place.size
        while left:
            piece = self._exactly(min(CAR_PIECE_BYTES, left), "a block")
            digest.update(piece)
            left -= len(piece)
        if digest.digest() != cid.digest:
            raise self._broken(at, f"the bytes of block {cid} have another hash")

    def _varint(self) -> int | None:
        """The next number; None at the end of the file."""
        at, found = self._file.tell(), 0
        for position in range(VARINT_BYTES_MAX):
            byte = self._file.read(1)
            if not byte and not position:
                return None
            if not byte:
                break
            found |= (byte[0] & 0x7F) << 7 * position
            if byte[0] < 0x80:
                return found
        raise self._broken(at, "a length is cut off or too long")

    def _exactly(self, size: int, what: str) -> bytes:
        at = self._file.tell()
        data = self._file.read(size)
        if len(data) != size:
            raise self._broken(at, f"{what} is cut off")
        return data

    def _broken(self, at: int, why: str) -> Rejected:
        return Rejected(
            "archive.broken", "{path} is damaged or no export, at byte {at}: {why}",
            path=self._name, at=at, why=why, hint="Nothing was changed. Make the export again.",
        )  # fmt: skip
