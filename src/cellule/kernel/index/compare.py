"""Walking roots in hash order: pages of one root, the difference of two.

Both go down level by level from a cursor, with only as many subtrees in hand as the page can hold: a
subtree that differs has at least one change. Equal CIDs are skipped, so a diff costs what differs. A page
checks its nodes whole, canonical bytes included, so `check` is a walk over all pages; a diff checks what
differs.

A cursor is the 32-byte hash up to which everything was answered; it stays good for another root.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import compress
from typing import NamedTuple

from cellule.errors import Rejected
from cellule.kernel.index.build import spread
from cellule.kernel.index.node import (
    BUCKET_SIZE,
    HASH_BITS,
    WIDTH,
    Bucket,
    Element,
    Node,
    Value,
    hash_of,
    shift_of,
)  # fmt: skip
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cbor import encode, encode_linked
from cellule.values.cid import Cid

START = b""
PAGE_MAX = 10_000
_CHECK_PAGE = 1_000

Change = tuple[bytes, Value | None, Value | None]  # key, old value, new value; None = not there


class Entries(NamedTuple):
    """A page of a root: entries in hash order; `cursor` is None at the end."""

    entries: list[tuple[bytes, Value]]
    cursor: bytes | None


class Changes(NamedTuple):
    """A page of a difference, in hash order; `cursor` is None at the end."""

    changes: list[Change]
    cursor: bytes | None


class _Found(NamedTuple):
    """A change, at its place in hash order."""

    last: int
    change: Change
    weight: int = 1


class _Pair(NamedTuple):
    """Two different subtrees of the same place: `prefix` is the hash down to the nodes at `depth`."""

    last: int  # the largest hash that can be in it
    old: Element
    new: Element
    depth: int
    prefix: int
    weight: int  # at least so many changes are in it


_Items = list[_Found | _Pair]
_Side = Node | dict[int, Element]


def pages(root: Cid | None, after: bytes, limit: int, nodes: Nodes) -> Generator[Need, None, Entries]:
    """Up to `limit` entries after the cursor; `START` begins."""
    changes, cursor = yield from diff(None, root, nodes, after=after, limit=limit)
    return Entries([(key, new) for key, _, new in changes], cursor)


def diff(
    old: Cid | None, new: Cid | None, nodes: Nodes, *, after: bytes = START, limit: int = PAGE_MAX
) -> Generator[Need, None, Changes]:
    """Up to `limit` keys after the cursor whose values differ, with both values."""
    if not 1 <= limit <= PAGE_MAX:
        raise Rejected(
            "kernel.page_limit", "a page takes limit 1 to {most}, not {limit}", limit=limit, most=PAGE_MAX
        )
    position = int.from_bytes(after, "big") if after else -1
    found: list[Change] = []
    while True:
        items, last = yield from _walk(old, new, nodes, position, limit - len(found))
        found.extend(item.change for item in items)
        if last is None:
            return Changes(found, None)
        if len(found) >= limit:
            return Changes(found, last.to_bytes(HASH_BITS // 8, "big"))
        position = last


def check(root: Cid | None, nodes: Nodes) -> Generator[Need, None, int]:
    """Read the whole index and return its number of entries; `Corrupted` where anything is wrong."""
    count = 0
    cursor: bytes | None = START
    while cursor is not None:
        entries, cursor = yield from pages(root, cursor, _CHECK_PAGE, nodes)
        count += len(entries)
    return count


def _walk(
    old: Cid | None, new: Cid | None, nodes: Nodes, after: int, limit: int
) -> Generator[Need, None, tuple[list[_Found], int | None]]:
    """At most `limit` changes, and the hash up to which they are complete; None = to the end."""
    items: _Items = []
    end: int | None = None
    if old != new:
        top = (1 << HASH_BITS) - 1
        items.append(_Pair(top, bytes(old) if old else None, bytes(new) if new else None, 0, 0, 1))
    while True:
        items, end = _cut(items, limit, end)
        pairs = [item for item in items if type(item) is _Pair]
        if not pairs:
            return [item for item in items if type(item) is _Found], end
        cids = [Cid(side) for pair in pairs for side in (pair.old, pair.new) if type(side) is bytes]
        blocks = yield from fetch(nodes, cids)
        below: _Items = []
        weight = 0
        covered: int | None = None
        for item in items:
            if weight >= limit:
                end = covered
                break
            found = _expand(item, blocks, after) if type(item) is _Pair else [item]
            below += found
            weight += sum(part.weight for part in found)
            covered = item.last
        items = below


def _cut(items: _Items, limit: int, end: int | None) -> tuple[_Items, int | None]:
    """The items that surely fill a page; what is behind them is left for the next."""
    weight = 0
    for count, item in enumerate(items, 1):
        weight += item.weight
        if weight >= limit and count < len(items):
            return items[:count], item.last
    return items, end


def _expand(pair: _Pair, blocks: dict[Cid, bytes], after: int) -> _Items:
    """What differs below a pair, in hash order, without what lies before the cursor."""
    depth = pair.depth
    old, new = _side(pair.old, depth, blocks), _side(pair.new, depth, blocks)
    alone = not (isinstance(old, Node) and isinstance(new, Node))
    shift = shift_of(depth)
    items: _Items = []
    for slot in _slots(old, new):
        prefix = pair.prefix * WIDTH + slot
        last = ((prefix + 1) << shift) - 1
        if last <= after:
            continue
        before, now = _element(old, slot, prefix, alone=alone), _element(new, slot, prefix, alone=alone)
        if type(before) is not bytes and type(now) is not bytes:
            items.extend(found for found in _compare(before or [], now or []) if found.last > after)
        elif before != now:
            weight = _weight(old, new) if before is None or now is None else 1
            items.append(_Pair(last, before, now, depth + 1, prefix, weight))
    return items


def _side(element: Element, depth: int, blocks: dict[Cid, bytes]) -> _Side:
    """A node, or the entries of a bucket by slot."""
    if type(element) is not bytes:
        return dict(spread(element or [], depth))
    cid = Cid(element)
    return Node(cid, blocks[cid], depth)


def _slots(old: _Side, new: _Side) -> Iterable[int]:
    """The slots to look at, ascending: all, or without those of two nodes that are surely equal.

    What is equal in Python may differ in bytes (1 and 1.0), so the bytes of all equal buckets decide.
    """
    either = _map(old) | _map(new)
    used = [slot for slot in range(WIDTH) if either >> slot & 1]
    if not (isinstance(old, Node) and isinstance(new, Node)) or old.map != new.map:
        return used
    if not (old.faithful() and new.faithful()):
        return used
    differ = [left != right for left, right in zip(old.data, new.data, strict=True)]
    same = [not other and type(left) is list for other, left in zip(differ, old.data, strict=True)]
    if encode_linked(list(compress(old.data, same))) != encode_linked(list(compress(new.data, same))):
        return used
    return compress(used, differ)


def _map(side: _Side) -> int:
    return side.map if isinstance(side, Node) else sum(1 << slot for slot in side)


def _element(side: _Side, slot: int, prefix: int, *, alone: bool) -> Element:
    """What one side has at a slot: a link, exact entries, or None; a node read alone is proven whole."""
    if not isinstance(side, Node):
        return side.get(slot)
    element = side.exact_at(slot) if alone else side.at(slot)
    if type(element) is bytes:
        side.child(element)
    elif element is not None and alone:
        side.check_bucket(element, prefix)
    elif element is not None:
        return side.entries(slot, prefix)
    return element


def _weight(old: _Side, new: _Side) -> int:
    """How many entries a subtree of one side has at least, or probably: a node with many links is full."""
    links = (
        sum(type(element) is bytes for element in side.data) for side in (old, new) if isinstance(side, Node)
    )
    return max(BUCKET_SIZE + 1, *links)


def _compare(old: Bucket, new: Bucket) -> list[_Found]:
    before = {entry[0]: entry[1] for entry in old}
    now = {entry[0]: entry[1] for entry in new}
    found = [
        _Found(hash_of(key), (key, before.get(key), now.get(key)))
        for key in before.keys() | now.keys()
        if key not in before or key not in now or encode(before[key]) != encode(now[key])
    ]
    found.sort(key=_last)
    return found


def _last(found: _Found) -> int:
    return found.last
