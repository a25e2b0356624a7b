"""One chunk of an ordered index: its bytes, where it ends, and what makes it malformed.

    chunk   [level, entries]
    level 0       entries are [key, value], keys ascending
    level n > 0   entries are [last key, link]: the chunks of level n - 1, in order

A chunk ends after an entry whose *ending* sha-256 starts with 7 zero bits, or after 512 entries; the last
chunk of a level ends where the entries end. The digest is that of the entry's own DAG-CBOR bytes, exactly
as they stand in the chunk. The root is the only chunk of the lowest level that has just one; no entries, no
root. So the chunks follow from the contents alone, and a change moves boundaries only near itself.
"""

from __future__ import annotations

from collections.abc import Generator
from hashlib import sha256
from typing import Any, NoReturn

from cellule.errors import CelluleError, Corrupted, InvariantBroken
from cellule.kernel.index.links import TAG, write_linked
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cbor import decode, decode_linked, decode_trusted, encode, encode_linked
from cellule.values.cid import CID_BYTES, PREFIXES, Cid
from cellule.values.link import Link

ENTRIES_MAX = 512
LEVEL_MAX = 23  # one byte in DAG-CBOR; 128 entries a chunk make more than any store can hold
_ENDING_BELOW = 2  # a first byte below it has 7 zero bits

Entry = list[Any]  # [key, value], or [last key, bare link bytes] above level 0


class Chunk:
    """A decoded chunk; neither list is ever changed."""

    __slots__ = ("cid", "entries", "keys", "level")

    def __init__(self, cid: Cid, raw: bytes, level: int | None, last: bytes | None) -> None:
        self.cid = cid
        self.level, self.entries = _decoded(cid, raw)
        self.keys: list[bytes] = [entry[0] for entry in self.entries]
        if level is not None and self.level != level:
            malformed(cid, f"it has level {self.level} where {level} belongs")
        if not self.keys or len(self.keys) > ENTRIES_MAX:
            malformed(cid, f"it has {len(self.keys)} entries, not 1 to {ENTRIES_MAX}")
        if len(set(self.keys)) != len(self.keys) or sorted(self.keys) != self.keys:
            malformed(cid, "its keys do not ascend")
        if last is not None and self.keys[-1] != last:
            malformed(cid, f"its last key is 0x{self.keys[-1].hex()}, not the 0x{last.hex()} it is linked by")

    def child(self, position: int) -> Cid:
        """The chunk that an entry links."""
        link: bytes = self.entries[position][1]
        if link[:4] != PREFIXES["dag-cbor"] or len(link) != CID_BYTES:
            malformed(self.cid, f"it links 0x{link.hex()}, which is no CID of a chunk")
        return Cid(link)


def encode_chunk(level: int, entries: list[Any]) -> bytes:
    """The bytes of a chunk."""
    if level == 0:
        return _encode_values(entries)
    data = write_linked([level, entries])
    if data.count(TAG) == len(entries):
        return data
    return encode([level, [[key, Link(Cid(link))] for key, link in entries]])


def _encode_values(entries: list[Any]) -> bytes:
    """A chunk of level 0. Every entry was read from a chunk or written by `is_ending`: each has exact bytes.

    Where the fast codec writes no link there is none, and nothing was mistaken for one.
    """
    try:
        data = encode_linked([0, entries])
    except InvariantBroken:  # it knows no links and no tuples
        return encode([0, entries])
    return encode([0, entries]) if TAG in data else data


def is_ending(level: int, entry: Entry) -> bool:
    """Tell whether a chunk ends after this entry."""
    if level == 0:
        data = encode(entry)
    else:
        data = write_linked(entry)
        if data.count(TAG) != 1:
            data = encode([entry[0], Link(Cid(entry[1]))])
    return sha256(data).digest()[0] < _ENDING_BELOW


def check(root: Cid | None, nodes: Nodes) -> Generator[Need, None, int]:
    """Read the whole index and return its number of entries; `Corrupted` where anything is wrong."""
    if root is None:
        return 0
    row: list[tuple[Cid, bytes | None]] = [(root, None)]
    level: int | None = None
    while True:
        chunks = yield from _read_row(row, level, nodes)
        level = chunks[0].level
        _check_row(chunks, is_root=row[0][1] is None)
        if level == 0:
            return sum(len(chunk.keys) for chunk in chunks)
        row = [(chunk.child(at), key) for chunk in chunks for at, key in enumerate(chunk.keys)]
        level -= 1


def _read_row(
    row: list[tuple[Cid, bytes | None]], level: int | None, nodes: Nodes
) -> Generator[Need, None, list[Chunk]]:
    """The chunks of a level; runs keep the nodes in hand few."""
    chunks = []
    for start in range(0, len(row), ENTRIES_MAX):
        run = row[start : start + ENTRIES_MAX]
        blocks = yield from fetch(nodes, [cid for cid, _ in run])
        for cid, last in run:
            try:
                decode(blocks[cid])
            except CelluleError as error:
                malformed(cid, f"its bytes are not canonical: {error}", error)
            chunks.append(Chunk(cid, blocks[cid], level, last))
    return chunks


def _check_row(chunks: list[Chunk], *, is_root: bool) -> None:
    """All chunks of a level end exactly where the rule says."""
    level = chunks[0].level
    if is_root and level and len(chunks[0].keys) == 1:
        malformed(chunks[0].cid, "it is a root with a single chunk below")
    before: bytes | None = None
    for position, chunk in enumerate(chunks):
        if before is not None and chunk.keys[0] <= before:
            malformed(chunk.cid, "its keys do not follow those of the chunk before")
        before = chunk.keys[-1]
        endings = [at for at, entry in enumerate(chunk.entries) if is_ending(level, entry)]
        full = len(chunk.keys) == ENTRIES_MAX
        is_last = position == len(chunks) - 1
        if (endings and endings[0] != len(chunk.keys) - 1) or not (endings or full or is_last):
            malformed(chunk.cid, "it does not end where its entries say")


def _decoded(cid: Cid, raw: bytes) -> tuple[int, list[Entry]]:
    if len(raw) < 2 or raw[0] != 0x82 or raw[1] > LEVEL_MAX:
        malformed(cid, "it is not [level, entries]")
    level = raw[1]
    try:
        block: Any = decode_linked(raw) if level else decode_trusted(raw)
    except CelluleError as error:
        malformed(cid, f"it is not DAG-CBOR: {error}", error)
    entries = block[1]
    if type(entries) is not list:
        malformed(cid, "it is not [level, entries]")
    if {*map(type, entries)} - {list} or {*map(len, entries)} - {2}:
        malformed(cid, "an entry is not a key and what it stands for")
    if {type(key) for key, _ in entries} - {bytes}:
        malformed(cid, "an entry is not a key and what it stands for")
    if level and {type(link) for _, link in entries} - {bytes}:
        malformed(cid, "an entry above level 0 links no chunk")
    return level, entries


def malformed(cid: Cid, what: str, cause: Exception | None = None) -> NoReturn:
    """Raise `Corrupted` for a chunk."""
    raise Corrupted("kernel.chunk", "chunk {cid}: {what}", cid=str(cid), what=what) from cause
