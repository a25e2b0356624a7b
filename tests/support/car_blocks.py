"""CAR files as a plain reading of the specification has them, without the code under test."""

from __future__ import annotations

from cellule.host.archive.car import block_head, header_bytes
from cellule.values.cbor import decode
from cellule.values.cid import Cid, cid_of


def plain_blocks(data: bytes) -> dict[Cid, bytes]:
    """All blocks of a file, each proven; the root is the first where its exporter wrote it first."""

    def number(at: int) -> tuple[int, int]:
        found = shift = 0
        while True:
            found |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                return found, at

    size, at = number(0)
    header = decode(data[at : at + size])
    assert isinstance(header, dict)
    assert header["version"] == 1
    at += size
    found = {}
    while at < len(data):
        size, at = number(at)
        cid = Cid.of_bytes(data[at : at + 36])
        found[cid] = data[at + 36 : at + size]
        assert cid_of(found[cid], codec=cid.codec) == cid
        at += size
    return found


def written(root: Cid, blocks: dict[Cid, bytes]) -> bytes:
    """A file of these blocks."""
    return header_bytes(root) + b"".join(block_head(cid, len(data)) + data for cid, data in blocks.items())
