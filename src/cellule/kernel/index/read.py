"""Looking up keys in a root: all keys together, one level of the tree at a time."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from itertools import islice

from cellule.kernel.index.node import WIDTH, Node, Value, hash_of, shift_of
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cid import Cid

LOOKUP_KEYS_MAX = 4_096  # keys walked together: bounds the nodes held at once

_Wanted = list[tuple[int, bytes]]


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
    root: Cid, keys: Iterable[bytes], nodes: Nodes, found: dict[bytes, Value]
) -> Generator[Need, None, None]:
    level: dict[Cid, _Wanted] = {root: [(hash_of(key), key) for key in keys]}
    depth = 0
    while level:
        blocks = yield from fetch(nodes, level)
        below: dict[Cid, _Wanted] = {}
        for cid, wanted in level.items():
            _follow(Node(cid, blocks[cid], depth), wanted, below, found)
        level = below
        depth += 1


def _follow(node: Node, wanted: _Wanted, below: dict[Cid, _Wanted], found: dict[bytes, Value]) -> None:
    """Find what this node holds itself, and add the rest to the level below."""
    shift = shift_of(node.depth)
    for hashed, key in wanted:
        prefix = hashed >> shift
        element = node.at(prefix & (WIDTH - 1))
        if element is None:
            continue
        if type(element) is bytes:
            below.setdefault(node.child(element), []).append((hashed, key))
            continue
        for stored, value in node.entries(prefix & (WIDTH - 1), prefix):
            if stored == key:
                found[key] = value
