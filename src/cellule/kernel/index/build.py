"""Making the bytes of changed index nodes.

`rebuild` turns an old node (or none) and its replaced slots into a new block, a bucket for the parent, or
nothing. Few changed elements are exchanged in the node's own bytes; else the fast codec writes the node where
linked form is proven faithful, and the exact codec elsewhere. All three give the same canonical bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cellule.errors import ensure
from cellule.kernel.index.links import LINK_HEAD, Mistaken, is_mistaken, to_linked
from cellule.kernel.index.node import (
    BUCKET_SIZE,
    DEPTH_MAX,
    MAP_BYTES,
    WIDTH,
    Bucket,
    Element,
    Node,
    block_of,
    hash_of,
    is_small,
    linked_block,
    mistaken_keys,
    shift_of,
)  # fmt: skip
from cellule.values.cbor import encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link

PATCHES_MAX = 4  # more elements are written faster with the whole node

Replaced = Mapping[int, Element]  # slot -> link, bucket of exact values, or None


class Block(NamedTuple):
    """A new node."""

    cid: Cid
    data: bytes


def rebuild(node: Node | None, depth: int, replaced: Replaced) -> Block | Bucket | None:
    """The node with these slots replaced. Below the root, few entries come back as a bucket."""
    if node is not None and len(replaced) <= PATCHES_MAX:
        patched = _patched(node, replaced)
        if patched is not None:
            return Block(cid_of(patched), patched)
    try:
        bitmap, data, repair = _linked(node, replaced)
    except Mistaken:
        return _rebuild_exact(node, depth, replaced)
    if not data:
        return None
    if depth and len(data) <= BUCKET_SIZE and is_small(data):
        return _merged(_exact(node, replaced)[1])
    try:
        block = linked_block(bitmap, data, depth, mistaken_keys(data) if repair else [])
    except Mistaken:
        return _rebuild_exact(node, depth, replaced)
    return Block(cid_of(block), block)


def _patched(node: Node, replaced: Replaced) -> bytes | None:
    """The node's bytes with some elements exchanged, without writing the others again.

    It is done only where slots stay used and the old element's bytes occur once, so they are the element.
    """
    if node.depth and len(node.data) <= BUCKET_SIZE:
        return None  # it may have to collapse
    raw = node.raw
    for slot, element in replaced.items():
        old = node.at(slot)
        span = LINK_HEAD + old if type(old) is bytes else node.spans.get(slot)
        if element is None or span is None:
            return None
        at = raw.find(span)
        if at < 0 or raw.find(span, at + 1) >= 0:
            return None
        new = LINK_HEAD + element if type(element) is bytes else encode(element)
        raw = raw[:at] + new + raw[at + len(span) :]
    return raw


def spread(entries: Bucket, depth: int) -> dict[int, Bucket]:
    """The entries by their slot at that depth."""
    ensure(depth <= DEPTH_MAX, "kernel.index_depth", "more than 3 keys share all bits of their hash")
    shift = shift_of(depth)
    slots: dict[int, Bucket] = {}
    for entry in entries:
        slots.setdefault((hash_of(entry[0]) >> shift) & (WIDTH - 1), []).append(entry)
    return slots


def _linked(node: Node | None, replaced: Replaced) -> tuple[int, list[Element], bool]:
    """Map and elements in linked form, and whether some key has to be repaired."""
    repair = False
    if node is not None:
        if not node.faithful():
            raise Mistaken
        repair = node.repaired
    linked: dict[int, Element] = {}
    for slot, element in replaced.items():
        if type(element) is not list:
            linked[slot] = element
            continue
        linked[slot] = [[key, to_linked(value)] for key, value in element]
        repair = repair or any(is_mistaken(entry[0]) for entry in element)
    bitmap, data = _spliced(node.map if node else 0, node.data if node else [], linked)
    return bitmap, data, repair


def _exact(node: Node | None, replaced: Replaced) -> tuple[int, list[Element]]:
    return _spliced(node.map if node else 0, node.exact() if node else [], replaced)


def _rebuild_exact(node: Node | None, depth: int, replaced: Replaced) -> Block | Bucket | None:
    bitmap, data = _exact(node, replaced)
    if not data:
        return None
    if depth and len(data) <= BUCKET_SIZE and is_small(data):
        return _merged(data)
    elements = [element if type(element) is list else Link(Cid(element)) for element in data]
    block = encode(block_of([bitmap.to_bytes(MAP_BYTES, "little"), elements], depth))
    return Block(cid_of(block), block)


def _spliced(bitmap: int, data: list[Element], replaced: Replaced) -> tuple[int, list[Element]]:
    data = data.copy()
    for slot, element in replaced.items():
        bit = 1 << slot
        position = (bitmap & (bit - 1)).bit_count()
        if element is None:
            if bitmap & bit:
                del data[position]
                bitmap ^= bit
        elif bitmap & bit:
            data[position] = element
        else:
            data.insert(position, element)
            bitmap |= bit
    return bitmap, data


def _merged(data: list[Element]) -> Bucket:
    return sorted((entry for bucket in data for entry in bucket), key=_key)


def _key(entry: list[Any]) -> bytes:
    key: bytes = entry[0]
    return key
