"""Reading a root: many keys together, one level at a time; or a range, in key order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator
from itertools import islice

from cellule.errors import Rejected
from cellule.kernel.index.chunk import Chunk, Value
from cellule.kernel.index.cursor import Cursor
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cid import Cid

LOOKUP_KEYS_MAX = 4_096  # keys walked together: bounds the nodes held at once
SCAN_MAX = 10_000  # entries of one page
AHEAD_MAX = 32  # chunks a scan asks for together
_AHEAD_ENTRIES = 16  # entries a chunk brings, roughly

Entry = tuple[bytes, Value]
_Wanted = dict[Cid, tuple[bytes | None, list[bytes]]]  # chunks: the key each is linked by, and keys to find


def lookup(
    root: Cid | None, keys: Collection[bytes], nodes: Nodes
) -> Generator[Need, None, dict[bytes, Value]]:
    """The values of `keys`; a key that is not there is not in the answer."""
    found: dict[bytes, Value] = {}
    if root is None:
        return found
    left = iter(keys)
    while batch := list(islice(left, LOOKUP_KEYS_MAX)):
        yield from _walk(root, batch, nodes, found)
    return found


def _walk(
    root: Cid, keys: list[bytes], nodes: Nodes, found: dict[bytes, Value]
) -> Generator[Need, None, None]:
    row: _Wanted = {root: (None, keys)}
    level: int | None = None
    while row:
        blocks = yield from fetch(nodes, row)
        below: _Wanted = {}
        for cid, (last, wanted) in row.items():
            chunk = Chunk(cid, blocks[cid], level, last)
            level = chunk.level
            if level:
                _follow(chunk, wanted, below)
            else:
                _take(chunk, wanted, found)
        row, level = below, (level or 0) - 1


def _follow(chunk: Chunk, wanted: list[bytes], below: _Wanted) -> None:
    """Add the keys to the chunks of the level below that could hold them."""
    keys = chunk.keys
    groups: dict[int, list[bytes]] = {}
    for key in wanted:
        groups.setdefault(bisect_left(keys, key), []).append(key)
    groups.pop(len(keys), None)  # they are greater than every key there is
    for at, some in groups.items():
        below[chunk.child(at)] = (keys[at], some)


def _take(chunk: Chunk, wanted: list[bytes], found: dict[bytes, Value]) -> None:
    keys = chunk.keys
    for key in wanted:
        at = bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            found[key] = chunk.value(at)


def check_limit(limit: int) -> None:
    """Refuse a page that is empty or too long."""
    if not 1 <= limit <= SCAN_MAX:
        raise Rejected(
            "kernel.page_limit", "a page takes limit 1 to {most}, not {limit}", limit=limit, most=SCAN_MAX
        )


def scan(
    root: Cid | None, begin: bytes, end: bytes | None, limit: int, nodes: Nodes,
    *, reverse: bool = False, is_hidden: Callable[[bytes], bool] | None = None,
) -> Generator[Need, None, list[Entry]]:  # fmt: skip
    """Up to `limit` entries of `[begin, end)` in key order, or from its end; without hidden ones."""
    check_limit(limit)
    found: list[Entry] = []
    if root is None or (end is not None and begin >= end):
        return found
    # Chunks ahead are read together: a remote store answers many at the price of one.
    cursor = Cursor(root, nodes, ahead_max=min(1 + limit // _AHEAD_ENTRIES, AHEAD_MAX))
    yield from cursor.open()
    yield from cursor.seek(end if reverse else begin)
    while True:
        chunk = cursor.chunk
        size = len(chunk.keys)
        low = bisect_left(chunk.keys, begin)
        high = size if end is None else bisect_left(chunk.keys, end)
        places = range(high - 1, low - 1, -1) if reverse else range(low, high)
        _collect(chunk, places, limit, found, is_hidden)
        if len(found) >= limit or (low > 0 if reverse else high < size):
            return found
        if not (yield from cursor.prev() if reverse else cursor.next()):
            return found


def scan_all(root: Cid | None, nodes: Nodes) -> Generator[Need, None, list[Entry]]:
    """All entries, in key order: of lists that are kept in memory as a whole."""
    found: list[Entry] = []
    begin: bytes | None = b""
    while begin is not None:
        page = yield from scan(root, begin, None, SCAN_MAX, nodes)
        found += page
        begin = page[-1][0] + b"\0" if len(page) == SCAN_MAX else None
    return found


def _collect(
    chunk: Chunk, places: range, limit: int, found: list[Entry], is_hidden: Callable[[bytes], bool] | None
) -> None:
    keys, values = chunk.keys, chunk.exact()
    for place in places:
        if len(found) == limit:
            return
        if is_hidden is None or not is_hidden(keys[place]):
            found.append((keys[place], values[place]))
