"""One chunk of an index: its bytes, where it ends, and what makes it malformed.

    chunk   [level, keys, values]       keys ascending; the n-th value belongs to the n-th key
    level 0       values are the entries' values
    level n > 0   each key is the last key of a chunk of level n - 1, each value the link to it, in order

A chunk ends after a key whose sha-256 has, at byte `level`, a number below the level's bound; or when it is
full; the last chunk of a level ends where the keys end. So chunks follow from the keys alone: a changed value
moves no boundary, a new or removed key only the nearest. The root is the only chunk of the lowest level that
has just one; no entries, no root.

Values are rows of the kernel's own: shallow, without floats. In a chunk with links they stay in *linked form*
(a link is its bare bytes, as the fast codec reads it) until they are taken out; every shortcut is proven on
the bytes.

Rejected: a digest of the whole entry. Every step of a cell could then move a boundary.
Rejected: a bound on a chunk's bytes. It would make boundaries depend on values; values have bounds instead.
Rejected: the exact codec for every chunk with links. It is 5 to 15 times slower.
"""

from __future__ import annotations

from hashlib import sha256
from operator import lt
from typing import Any, Final, NamedTuple, NoReturn

from cellule.errors import CelluleError, Corrupted, InvariantBroken
from cellule.values.cbor import decode_linked, decode_trusted, encode, encode_flat, encode_linked
from cellule.values.cid import CID_BYTES, PREFIXES, Cid
from cellule.values.writer import LIST, head

LEVEL_MAX: Final = 23  # one byte in DAG-CBOR; more than any store can hold
TAG: Final = b"\xd8\x2a"  # how every link begins; also possible by chance inside byte strings
LINK_HEAD: Final = TAG + b"\x58\x25\x00"  # what stands before the 36 bytes of a CID
_CHUNK_HEAD: Final = b"\x83"

Value = Any


class Shape(NamedTuple):
    """How long chunks of level 0 are: one key in 256 / `ending_below` ends one, and `entries_max` fill it."""

    ending_below: int
    entries_max: int

    def at(self, level: int) -> Shape:
        """The shape of a level."""
        return LINKS if level else self


LINKS: Final = Shape(ending_below=8, entries_max=256)  # format: every level above 0
CELLS: Final = Shape(ending_below=24, entries_max=96)  # format: 11 cells on average
LISTS: Final = Shape(ending_below=4, entries_max=256)  # format: 64 rows on average


class Span(NamedTuple):
    """A value as its exact bytes: how the values of a chunk with links are moved into another chunk."""

    data: bytes


class Chunk:
    """A decoded chunk; its lists are never changed."""

    __slots__ = ("_raw", "cid", "keys", "level", "values")

    def __init__(self, cid: Cid, raw: bytes, level: int | None, last: bytes | None) -> None:
        self.cid = cid
        self.level, self.keys, self.values = _decoded(cid, raw)
        self._raw = raw
        if level is not None and self.level != level:
            malformed(cid, f"it has level {self.level} where {level} belongs")
        if last is not None and self.keys[-1] != last:
            malformed(cid, f"its last key is 0x{self.keys[-1].hex()}, not the 0x{last.hex()} it is linked by")

    def child(self, position: int) -> Cid:
        """The chunk that an entry links."""
        link: bytes = self.values[position]
        if link[:4] != PREFIXES["dag-cbor"] or len(link) != CID_BYTES:
            malformed(self.cid, f"it links 0x{link.hex()}, which is no CID of a chunk")
        return Cid(link)

    def value(self, position: int) -> Value:
        """The value of an entry of level 0."""
        value = self.values[position]
        if TAG not in self._raw:
            return value
        # Where the fast codec gives back the chunk's own bytes from here to its end, it mistook nothing.
        if not self._raw.endswith(b"".join(map(encode_linked, self.values[position:]))):
            return self._exact()[position]
        return decode_trusted(encode_linked(value))

    def exact(self) -> list[Value]:
        """All values of level 0."""
        return self._exact() if TAG in self._raw else self.values

    def movable(self) -> list[Any]:
        """All values, as `encode_chunk` takes them into another chunk of the same level."""
        if self.level or TAG not in self._raw:
            return self.values
        spans = [encode_linked(value) for value in self.values]
        if not self._raw.endswith(b"".join(spans)):
            spans = [encode(value) for value in self._exact()]
        return [Span(data) for data in spans]

    def _exact(self) -> list[Value]:
        block: Any = decode_trusted(self._raw)
        values: list[Value] = block[2]
        return values


def encode_chunk(level: int, keys: list[Any], values: list[Any]) -> bytes:
    """The bytes of a chunk; values may be a `Span`, and above level 0 they are the links' bare bytes."""
    if level:
        links = [LINK_HEAD + link for link in values]
        return b"".join((_CHUNK_HEAD, bytes((level,)), encode_flat(keys), head(LIST, len(links)), *links))
    try:
        data = encode_linked([0, keys, values])
        if TAG not in data:  # it wrote no link, so there is none, and nothing was mistaken for one
            return data
    except InvariantBroken:
        pass  # it knows no links, spans and tuples
    spans = [value.data if type(value) is Span else encode(value) for value in values]
    return b"".join((_CHUNK_HEAD, b"\0", encode_flat(keys), head(LIST, len(spans)), *spans))


def is_ending(level: int, key: bytes, shape: Shape) -> bool:
    """Tell whether a chunk of that level ends after this key; `shape` is that of the level."""
    return sha256(key).digest()[level] < shape.ending_below


def _decoded(cid: Cid, raw: bytes) -> tuple[int, list[bytes], list[Value]]:
    if len(raw) < 3 or raw[:1] != _CHUNK_HEAD or raw[1] > LEVEL_MAX:
        malformed(cid, "it is not [level, keys, values]")
    try:
        block: Any = decode_linked(raw)
    except CelluleError as error:
        malformed(cid, f"it is not DAG-CBOR: {error}", error)
    level, keys, values = block
    if type(keys) is not list or type(values) is not list or len(keys) != len(values):
        malformed(cid, "it has not as many values as keys")
    if {*map(type, keys)} != {bytes}:
        malformed(cid, "a key is not a byte string, or it has none")
    if not all(map(lt, keys, keys[1:])):
        malformed(cid, "its keys do not ascend")
    if level and {*map(type, values)} != {bytes}:
        malformed(cid, "an entry above level 0 links no chunk")
    return level, keys, values


def malformed(cid: Cid, what: str, cause: Exception | None = None) -> NoReturn:
    """Raise `Corrupted` for a chunk."""
    raise Corrupted("kernel.chunk", "chunk {cid}: {what}", cid=str(cid), what=what) from cause
