"""Key families: which rows live and die alike, told from fixed bytes of a key.

An engine may keep each family in a table of its own, so that queues, frames and objects are cleaned
apart. A scan, or a range to clear, stays inside one family; below a universe or a world it stays inside
that one too. Keys of no known shape are META. Building keys does not live here.

Rejected: a family per kind of row. Five tables are what vacuuming needs; more would only cost statements.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import pairwise
from uuid import UUID

from cellule.errors import Rejected


class Family(IntEnum):
    """Rows that live and die alike."""

    META = 0
    JOURNAL = 1
    QUEUE = 2
    CAS = 3
    COUNTER = 4


COUNTER_HEAD = b"\x01"
UNIVERSE_HEAD = b"\x02u\x00\x30"
WORLD_HEAD = b"\x02w\x00\x30"
UNIVERSE_BYTES = len(UNIVERSE_HEAD) + 16
WORLD_BYTES = len(WORLD_HEAD) + 16 + 1 + 16

_QUEUE_HEADS = (b"\x02effects\0", b"\x02ready\0", b"\x02session\0", b"\x02wake\0")
_TOP_HEADS: tuple[bytes, ...] = (COUNTER_HEAD, UNIVERSE_HEAD, WORLD_HEAD, *_QUEUE_HEADS)
_UNIVERSE_FAMILIES = {
    b"\x02cas\0": Family.CAS, b"\x02chunks\0": Family.CAS, b"\x02marks\0": Family.CAS,
    b"\x02unread\0": Family.CAS,
}  # fmt: skip
_WORLD_FAMILIES = {b"\x02inbox\0": Family.QUEUE, b"\x02journal\0": Family.JOURNAL}


def universe_prefix(universe: UUID) -> bytes:
    """Return what the keys `u/<universe>/...` begin with."""
    return UNIVERSE_HEAD + universe.bytes


def world_prefix(universe: UUID, world: UUID) -> bytes:
    """Return what the keys `w/<universe>/<world>/...` begin with."""
    return WORLD_HEAD + universe.bytes + b"\x30" + world.bytes


def family(key: bytes) -> Family:
    """Return the family of a key."""
    if key.startswith(WORLD_HEAD):
        return _named(key, WORLD_BYTES, _WORLD_FAMILIES)
    if key.startswith(UNIVERSE_HEAD):
        return _named(key, UNIVERSE_BYTES, _UNIVERSE_FAMILIES)
    if key.startswith(_QUEUE_HEADS):
        return Family.QUEUE
    return Family.COUNTER if key.startswith(COUNTER_HEAD) else Family.META


def check_one_family(begin: bytes, end: bytes) -> Family:
    """Return the family of all keys of `[begin, end)`; refuse a range that may hold keys of two."""
    if begin >= end:
        return family(begin)
    scope, heads = b"", _TOP_HEADS
    if begin.startswith(WORLD_HEAD):
        scope, heads = begin[:WORLD_BYTES], tuple(_WORLD_FAMILIES)
        _check_scope(begin, end, scope, WORLD_BYTES)
    elif begin.startswith(UNIVERSE_HEAD):
        scope, heads = begin[:UNIVERSE_BYTES], tuple(_UNIVERSE_FAMILIES)
        _check_scope(begin, end, scope, UNIVERSE_BYTES)
    for name in heads:
        head = scope + name
        if (end > _after(head)) if begin.startswith(head) else (begin < head < end):
            raise _crossing(begin, end)
    return family(begin)


def world_ranges(universe: UUID, world: UUID) -> list[tuple[bytes, bytes]]:
    """Return the ranges that together hold all rows of a world, each inside one family."""
    return _ranges(world_prefix(universe, world), _WORLD_FAMILIES)


def universe_ranges(universe: UUID) -> list[tuple[bytes, bytes]]:
    """Return the ranges that together hold all rows of a universe but those of its worlds."""
    return _ranges(universe_prefix(universe), _UNIVERSE_FAMILIES)


def _ranges(prefix: bytes, families: dict[bytes, Family]) -> list[tuple[bytes, bytes]]:
    cuts = {prefix, _after(prefix)}
    for name in families:
        cuts |= {prefix + name, _after(prefix + name)}
    return list(pairwise(sorted(cuts)))


def _named(key: bytes, at: int, families: dict[bytes, Family]) -> Family:
    for name, kind in families.items():
        if key.startswith(name, at):
            return kind
    return Family.META


def _check_scope(begin: bytes, end: bytes, scope: bytes, size: int) -> None:
    if len(scope) < size or end > _after(scope):
        raise _crossing(begin, end)


def _after(prefix: bytes) -> bytes:
    """The first byte string behind all that begin with `prefix`, which has a byte below FF."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes((cut[-1] + 1,))


def _crossing(begin: bytes, end: bytes) -> Rejected:
    return Rejected(
        "store.range_families", "the range from {begin} to {end} holds keys of more than one family",
        begin=begin, end=end, hint="Scan or clear one range per family; store/keys.py gives them.",
    )  # fmt: skip
