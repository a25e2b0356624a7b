"""Log states: cells that only append. A step returns entries; full tails are sealed into chunks.

A log's tail is the canonical list of its newest entries; once it reaches `LOG_CHUNK_BYTES` it becomes a
block and a new tail starts, so a step's record holds only what it appended, and a long history is never
written twice. Sealer is a function of the bytes alone: replay seals at the same places.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from cellule.errors import Corrupted
from cellule.kernel.key_ring import KeyRing
from cellule.kernel.limits import LOG_CHUNK_BYTES
from cellule.kernel.need import Need
from cellule.kernel.program import LogMark
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from cellule.values.sealed_value import is_sealed
from cellule.values.writer import LIST, head

EMPTY = b"\x80"
NOTHING = LogMark((), EMPTY)


def advanced(mark: LogMark, added: bytes) -> tuple[LogMark, bytes | None]:
    """Where a log ends once these entries are appended, and the chunk that this seals, if any."""
    tail = append(mark.tail, added)
    if not is_full(tail):
        return LogMark(mark.chunks, tail), None
    return LogMark([*mark.chunks, Link(cid_of(tail))], EMPTY), tail


def append(tail: bytes, added: bytes) -> bytes:
    """The canonical list of all items of both lists."""
    return joined((tail, added))


def is_full(tail: bytes) -> bool:
    """Tell whether this tail is to be sealed."""
    return len(tail) >= LOG_CHUNK_BYTES


def joined(lists: Sequence[bytes]) -> bytes:
    """The canonical list of the items of several canonical lists, without decoding the items."""
    # Items keep their bytes, so joining cannot change a value and costs no decoding.
    parts = [split(data) for data in lists]
    return head(LIST, sum(count for count, _ in parts)) + b"".join(body for _, body in parts)


def opened(data: bytes, keys: KeyRing) -> Generator[Need, None, bytes]:
    """The canonical list of a log, with the entries that what is sealed in it hides; `Gone` where erased."""
    entries: Any = decode_trusted(data)  # a log may be longer than a value
    found: list[bytes] = []
    for entry in entries:
        each = encode(entry)
        found.append((yield from keys.opened(each)) if is_sealed(each) else one(each))
    return joined(found)


def one(item: bytes) -> bytes:
    """The canonical list of one item."""
    return head(LIST, 1) + item


def split(data: bytes) -> tuple[int, bytes]:
    """The number of items of a canonical list, and their bytes."""
    first = data[0] if data else 0
    if first >> 5 != 4 or first & 31 > 27:
        raise Corrupted("kernel.log_damaged", "a log is not a list: it starts with {head}", head=data[:1])
    small = first & 31
    if small < 24:
        return small, data[1:]
    width = 1 << (small - 24)
    return int.from_bytes(data[1 : 1 + width], "big"), data[1 + width :]
