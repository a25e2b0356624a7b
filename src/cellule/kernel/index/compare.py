"""The difference of two roots, in key order and in time proportional to it.

Both trees are walked down together, a level at a time. A chunk that both have at the same level holds the
same entries, so it is left out on both sides; what is left at level 0 is compared key by key. A page looks at
no more chunks than it may have changes, so memory is bounded however much differs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Mapping
from itertools import compress
from operator import itemgetter, ne
from typing import NamedTuple

from cellule.kernel.index.chunk import Chunk, Value
from cellule.kernel.index.read import SCAN_MAX, check_limit
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cbor import encode, encode_flat
from cellule.values.cid import Cid

Change = tuple[bytes, Value | None, Value | None]  # key, old value, new value; None = not there
_Row = list[tuple[bytes, Cid]]  # chunks of a level in order, each with its last key


class Changes(NamedTuple):
    """A page of a difference, in key order; `cursor` continues after it and is None at the end."""

    changes: list[Change]
    cursor: bytes | None


def diff(
    old: Cid | None, new: Cid | None, nodes: Nodes, *, begin: bytes = b"", limit: int = SCAN_MAX
) -> Generator[Need, None, Changes]:
    """Up to `limit` keys from `begin` on whose values differ, with both values."""
    check_limit(limit)
    found: list[Change] = []
    cursor: bytes | None = begin if old != new else None
    while cursor is not None:
        some, cursor = yield from _page(old, new, nodes, cursor, limit)
        found += some
        if len(found) > limit or (len(found) == limit and cursor is not None):
            return Changes(found[:limit], found[limit - 1][0] + b"\0")
    return Changes(found, None)


def _page(
    old: Cid | None, new: Cid | None, nodes: Nodes, begin: bytes, limit: int
) -> Generator[Need, None, tuple[list[Change], bytes | None]]:
    """All changes from `begin` up to the key that is returned beside them; None = to the end."""
    roots = [root for root in (old, new) if root is not None]
    blocks = yield from fetch(nodes, roots)
    tops = [None if root is None else Chunk(root, blocks[root], None, None) for root in (old, new)]
    level = max(top.level for top in tops if top is not None)
    end: bytes | None = None
    rows: tuple[_Row, _Row] = ([], [])
    while True:
        for row, top in zip(rows, tops, strict=True):
            if top is not None and top.level == level:  # the lower of the two joins here
                row.append((top.keys[-1], top.cid))
        rows, end = _differing(*rows, limit, end)
        blocks = yield from fetch(nodes, [cid for row in rows for _, cid in row])
        if level == 0:
            changes = _compare(rows, blocks)
            return [each for each in changes if begin <= each[0] and (end is None or each[0] < end)], end
        left, right = (
            (Chunk(cid, blocks[cid], level, last) for last, cid in row) for row in rows
        )  # fmt: skip
        rows = (_below(left, begin, end), _below(right, begin, end))
        level -= 1


def _differing(
    left: _Row, right: _Row, limit: int, end: bytes | None
) -> tuple[tuple[_Row, _Row], bytes | None]:
    """The chunks that only one side has: so many as a page may have changes, and where they end."""
    shared = {cid for _, cid in left} & {cid for _, cid in right}
    left = [each for each in left if each[1] not in shared]
    right = [each for each in right if each[1] not in shared]
    for row in (left, right):
        if len(row) > limit and (end is None or row[limit - 1][0] < end):
            end = row[limit - 1][0] + b"\0"
    return (_until(left, end), _until(right, end)), end


def _until(row: _Row, end: bytes | None) -> _Row:
    """The chunks that can have keys below `end`."""
    return row if end is None else row[: bisect_left(row, end, key=itemgetter(0)) + 1]


def _below(chunks: Iterable[Chunk], begin: bytes, end: bytes | None) -> _Row:
    """The chunks below these that can have keys of `[begin, end)`."""
    row = [(key, chunk.child(at)) for chunk in chunks for at, key in enumerate(chunk.keys) if key >= begin]
    return _until(row, end)


def _compare(rows: tuple[_Row, _Row], blocks: Mapping[Cid, bytes]) -> list[Change]:
    """What differs between two rows of level 0; few chunks are decoded at a time."""
    left, right = map(dict, rows)
    changes: list[Change] = []
    old: dict[bytes, Value] = {}
    new: dict[bytes, Value] = {}
    for last in sorted(left.keys() | right.keys()):
        before, now = _leaf(left, last, blocks), _leaf(right, last, blocks)
        if before is not None and now is not None and before.keys == now.keys:
            changes += _changed(before.keys, before.exact(), now.exact())
            continue
        # A boundary or a key is new or gone here: an entry may stand in another chunk of the other side.
        for chunk, entries in ((before, old), (now, new)):
            if chunk is not None:
                entries.update(zip(chunk.keys, chunk.exact(), strict=True))
    keys = sorted(old.keys() & new.keys())
    changes += _changed(keys, [old[key] for key in keys], [new[key] for key in keys])
    changes += ((key, old.get(key), new.get(key)) for key in old.keys() ^ new.keys())
    return sorted(changes, key=itemgetter(0))


def _leaf(row: dict[bytes, Cid], last: bytes, blocks: Mapping[Cid, bytes]) -> Chunk | None:
    return Chunk(row[last], blocks[row[last]], 0, last) if last in row else None


def _changed(keys: list[bytes], old: list[Value], new: list[Value]) -> list[Change]:
    """The keys of both sides whose values differ."""
    differs = list(map(ne, old, new))
    same = [not each for each in differs]
    # What is equal in Python may differ in bytes (True and 1), so the bytes of all that is equal decide.
    if encode_flat(list(compress(old, same))) != encode_flat(list(compress(new, same))):
        differs = [encode(before) != encode(now) for before, now in zip(old, new, strict=True)]
    return list(compress(zip(keys, old, new, strict=True), differs))
