"""The world tree: nodes are cells of `sys/Tree`, read by their paths.

    state of a node   {value?, path?}     path: only where the key is too long to tell it

A node without a value is a folder. The root is always there. Listing goes by prefix of keys: names come in
byte order, except below paths whose keys are too long, where the order is that of digests.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.heartbeat.paths import (
    ROOT,
    is_below,
    is_long,
    path_of_key,
    segments_of,
    tree_key,
    tree_prefix,
)
from cellule.kernel.index.keys import prefix_end
from cellule.kernel.limits import DELETE_BYTES_MAX, DELETE_NODES_MAX
from cellule.kernel.need import Need
from cellule.kernel.state import writes
from cellule.kernel.state.heartbeat_rows import TREE
from cellule.kernel.state.ledger import Ledger
from cellule.values.cbor import decode_trusted, encode

NODE_BYTES = 60  # about what the record of a deleted node takes, beside its key
_PAGE = 256


def node_state(path: str, value: Any) -> bytes:
    """The state of a node."""
    state = {} if value is None else {"value": value}
    return encode({**state, "path": path} if is_long(path) else state)


def path_of_node(key: bytes, state: bytes) -> str:
    """The path of a node: its key tells it, or its state does."""
    found = path_of_key(key)
    if found is not None:
        return found
    told: Any = decode_trusted(state)
    return str(told["path"])


def state_at(ledger: Ledger, path: str) -> Generator[Need, None, bytes | None]:
    """The state of a node; None where there is none."""
    if TREE not in ledger.modules:
        return None
    entry = yield from writes.entry_at(ledger, TREE, tree_key(path))
    return None if entry is None else (yield from writes.state_of(ledger, entry))


def has_node(ledger: Ledger, path: str) -> Generator[Need, None, bool]:
    """Tell whether a node is there; the root is."""
    return path == ROOT or (yield from state_at(ledger, path)) is not None


def keys_below(ledger: Ledger, path: str, limit: int | None) -> Generator[Need, None, list[bytes]]:
    """The keys of a node and of all below it; refused where they are more than `limit`."""
    found: list[bytes] = []
    after = b""
    while True:
        page, after = yield from _page(ledger, path, after)
        found += [key for key, _ in page]
        if limit is not None and len(found) > limit:
            raise Rejected(
                "heartbeat.delete_size", "{path} has more than {most} nodes; delete it in parts",
                path=path, most=limit,
            )  # fmt: skip
        if not after:
            return found


def check_delete(ledger: Ledger, path: str) -> Generator[Need, None, int]:
    """About how many bytes of records a deletion takes; refused where its nodes are too many for one."""
    keys = yield from keys_below(ledger, path, DELETE_NODES_MAX)
    size = sum(NODE_BYTES + len(key) for key in keys)
    if size > DELETE_BYTES_MAX:
        raise Rejected(
            "heartbeat.delete_size",
            "{path} has {count} nodes with long paths, whose deletion takes {size} bytes; at most {most}",
            path=path, count=len(keys), size=size, most=DELETE_BYTES_MAX, hint="Delete it in parts.",
        )  # fmt: skip
    return size


def names_below(ledger: Ledger, path: str, after: str | None, limit: int) -> Generator[Need, None, list[str]]:
    """Up to `limit` names right below a node, those behind the name `after` in the order of listing."""
    depth, found = len(segments_of(path)), dict[str, None]()
    begin = b"" if after is None else _behind(path, after)
    size = _PAGE
    while True:
        page, begin = yield from _page(ledger, path, begin, size)
        known = len(found)
        for _, place in page:
            names = segments_of(place)
            if len(names) > depth and names[depth] != after:
                found[names[depth]] = None
        if len(found) >= limit or not begin:
            return list(found)[:limit]
        if found:  # names with much below them are passed by one at a time
            begin = max(begin, _behind(path, next(reversed(found))))
        size = min(_PAGE, max(1, 2 * (len(found) - known)))


def _behind(path: str, name: str) -> bytes:
    """The first key behind all that begin with a name below a path."""
    child = f"{path if path != ROOT else ''}/{name}"
    return tree_key(child) if is_long(child) else prefix_end(tree_key(child)) or b""


def _page(
    ledger: Ledger, path: str, begin: bytes, size: int = _PAGE
) -> Generator[Need, None, tuple[list[tuple[bytes, str]], bytes]]:
    """Nodes that are this one or below it, from a key on; and the key to go on with, empty at the end."""
    if TREE not in ledger.modules:
        return [], b""
    prefix = tree_prefix(path)
    end = prefix_end(prefix) if prefix else None
    page = yield from ledger.cells(TREE).live.scan(max(begin, prefix), end, size)
    found: list[tuple[bytes, str]] = []
    for key, entry in page.entries:
        place = path_of_key(key)
        if place is None:
            place = path_of_node(key, (yield from writes.state_of(ledger, entry)))
        if is_below(place, path):
            found.append((key, place))
    return found, page.next or b""
