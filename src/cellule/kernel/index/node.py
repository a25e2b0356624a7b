"""One node of the cell index: its bytes, its slots, and what makes it malformed.

    root     {"hamt": node, "hashAlg": 0x12, "bucketSize": 3}
    node     [map: 4 bytes, data: list]        bit i of map (byte i // 8, bit i % 8) = slot i is used
    data     one element a used slot, in the order of slots: a link to a node, or a bucket
    bucket   1 to 3 entries [key, value], keys ascending

A key's slot at depth d is bits 5d .. 5d+4 of its sha2-256, counted from the left. A subtree of at most 3
entries is a bucket in its parent, so equal entries are equal bytes. A node keeps its values in linked form
(`links`); only entries that a caller takes out become values. In both forms a link to a node is bare bytes.

What is touched is checked: a lookup checks the slots it follows, a page or a diff whole nodes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NoReturn

from cellule.errors import CelluleError, Corrupted
from cellule.kernel.index.links import (
    TAG,
    Mistaken,
    from_linked,
    is_mistaken,
    write_linked,
)  # fmt: skip
from cellule.values.cbor import decode, decode_linked, encode, encode_linked
from cellule.values.cid import CID_BYTES, PREFIXES, Cid
from cellule.values.link import Link

HASH_ALG = 0x12  # sha2-256
HASH_BITS = 256
BIT_WIDTH = 5
WIDTH = 1 << BIT_WIDTH
MAP_BYTES = WIDTH // 8
BUCKET_SIZE = 3
DEPTH_MAX = HASH_BITS // BIT_WIDTH - 1

Value = Any
Bucket = list[Any]  # of [key, value]
Element = Any  # bytes (a link to a node), a Bucket, or None for an empty slot


def hash_of(key: bytes) -> int:
    """The position of `key` among all keys: its sha2-256 as a number."""
    return int.from_bytes(sha256(key).digest(), "big")


def shift_of(depth: int) -> int:
    """How far a hash is shifted so that its last five bits are the slot at that depth."""
    return HASH_BITS - BIT_WIDTH * (depth + 1)


class Node:
    """A decoded node; `data` is in linked form and never changed in place."""

    __slots__ = ("_exact", "_faithful", "cid", "data", "depth", "map", "raw", "repaired", "spans")

    def __init__(self, cid: Cid, raw: bytes, depth: int) -> None:
        self.cid = cid
        self.raw = raw
        self.depth = depth
        self.repaired = False  # some keys are mistaken for CIDs by the fast codec
        self.spans: dict[int, bytes] = {}  # the bytes of buckets whose entries were taken out
        self._faithful: bool | None = None
        self._exact: list[Element] | None = None
        try:
            bitmap, self.data = body_of(decode_linked(raw), depth)
        except (CelluleError, ValueError, TypeError, KeyError) as error:
            malformed(cid, depth, f"it is not {'a root' if depth == 0 else '[map, data]'}", error)
        self.map = int.from_bytes(bitmap, "little")
        self._check()

    def _check(self) -> None:
        if self.depth > DEPTH_MAX:
            malformed(self.cid, self.depth, "it lies deeper than a hash has bits")
        used = self.map.bit_count()
        if used != len(self.data):
            malformed(self.cid, self.depth, f"its map has {used} bits set for {len(self.data)} elements")
        if not used:
            malformed(self.cid, self.depth, "it is empty")
        if self.depth and used <= BUCKET_SIZE and is_small(self.data):
            malformed(self.cid, self.depth, "it has too few entries: they belong into its parent as a bucket")

    def at(self, slot: int) -> Element:
        """The element of a slot as it stands in the node, or None."""
        bit = 1 << slot
        return self.data[(self.map & (bit - 1)).bit_count()] if self.map & bit else None

    def child(self, link: bytes) -> Cid:
        """The CID of a link of this node."""
        if link[:4] != PREFIXES["dag-cbor"] or len(link) != CID_BYTES:
            malformed(self.cid, self.depth, f"it links 0x{link.hex()}, which is no CID of a node")
        return Cid(link)

    def entries(self, slot: int, prefix: int) -> Bucket:
        """The entries of the bucket at `slot`, checked, as values; `prefix` is the hash down to that slot."""
        bucket = self.at(slot)
        self.check_bucket(bucket, prefix)
        self.spans[slot] = data = encode_linked(bucket)
        if TAG not in data:
            return [entry.copy() for entry in bucket]
        entries = self._exact_entries(slot, bucket)
        self.spans[slot] = encode(entries)
        return entries

    def _exact_entries(self, slot: int, bucket: Bucket) -> Bucket:
        if self.faithful():
            try:
                return [[key, from_linked(value)] for key, value in bucket]
            except Mistaken:
                pass  # the exact reader says what is wrong
        return [entry.copy() for entry in self.exact_at(slot)]

    def exact_at(self, slot: int) -> Element:
        """The element of a slot with exact values, or None."""
        bit = 1 << slot
        return self.exact()[(self.map & (bit - 1)).bit_count()] if self.map & bit else None

    def check_bucket(self, bucket: Bucket, prefix: int) -> None:
        """Refuse a bucket that cannot stand where it stands."""
        if type(bucket) is not list or not 1 <= len(bucket) <= BUCKET_SIZE:
            malformed(
                self.cid, self.depth, f"an element is neither a link nor a bucket of 1 to {BUCKET_SIZE}"
            )
        before: bytes | None = None
        for entry in bucket:
            if type(entry) is not list or len(entry) != 2 or type(entry[0]) is not bytes:
                malformed(self.cid, self.depth, "a bucket entry is not [key, value]")
            key = entry[0]
            if before is not None and key <= before:
                malformed(self.cid, self.depth, f"bucket keys do not ascend at 0x{key.hex()}")
            if hash_of(key) >> shift_of(self.depth) != prefix:
                malformed(self.cid, self.depth, f"key 0x{key.hex()} does not belong under its hash prefix")
            before = key

    def exact(self) -> list[Element]:
        """The elements with exact values; proves that the node's bytes are canonical."""
        if self._exact is None:
            links = sum(type(element) is bytes for element in self.data)
            if self.faithful() and self.raw.count(TAG) == links:
                self._exact = self.data
            else:
                self._exact = self._decoded()
        return self._exact

    def faithful(self) -> bool:
        """Tell whether linked form, mistaken keys repaired, gives back exactly the bytes read."""
        if self._faithful is None:
            self._faithful = self._is_faithful([])
            if not self._faithful:
                self.repaired = self._faithful = self._is_faithful(mistaken_keys(self.data))
        return self._faithful

    def _is_faithful(self, mistaken: list[bytes]) -> bool:
        try:
            return linked_block(self.map, self.data, self.depth, mistaken) == self.raw
        except Mistaken:
            return False

    def _decoded(self) -> list[Element]:
        try:
            _, data = body_of(decode(self.raw), self.depth)
        except CelluleError as error:
            malformed(self.cid, self.depth, f"its bytes are not canonical: {error}", error)
        for element in data:
            if type(element) is not Link and type(element) is not list:
                malformed(self.cid, self.depth, "an element is neither a link nor a bucket")
        return [bytes(element.cid) if type(element) is Link else element for element in data]


def body_of(block: Any, depth: int) -> tuple[bytes, list[Element]]:
    """The map and the elements of a decoded block; raises `ValueError` where it has another shape."""
    if depth == 0:
        if len(block) != 3 or block["hashAlg"] != HASH_ALG or block["bucketSize"] != BUCKET_SIZE:
            raise ValueError("other parameters")
        block = block["hamt"]
    bitmap, data = block
    if type(bitmap) is not bytes or len(bitmap) != MAP_BYTES or type(data) is not list:
        raise ValueError("other shape")
    return bitmap, data


def block_of(body: list[Any], depth: int) -> Any:
    """The block of a node: at the root with the parameters around it."""
    return body if depth else {"hamt": body, "hashAlg": HASH_ALG, "bucketSize": BUCKET_SIZE}


def linked_block(bitmap: int, data: list[Element], depth: int, mistaken: list[bytes]) -> bytes:
    """The bytes of a node by the fast codec; `mistaken` are all its keys that need repair."""
    map_bytes = bitmap.to_bytes(MAP_BYTES, "little")
    if is_mistaken(map_bytes):
        mistaken = [map_bytes, *mistaken]
    return write_linked(block_of([map_bytes, data], depth), mistaken)


def mistaken_keys(data: list[Element]) -> list[bytes]:
    """The keys in these elements that the fast codec would write as links."""
    return [
        entry[0]
        for element in data
        if type(element) is list
        for entry in element
        if type(entry) is list and entry and type(entry[0]) is bytes and is_mistaken(entry[0])
    ]


def is_small(data: list[Element]) -> bool:
    """Tell whether these elements are buckets that fit into one."""
    count = 0
    for element in data:
        if type(element) is not list:
            return False
        count += len(element)
    return count <= BUCKET_SIZE


def malformed(cid: Cid, depth: int, what: str, cause: Exception | None = None) -> NoReturn:
    """Raise `Corrupted` for an index node."""
    raise Corrupted(
        "kernel.index_node", "index node {cid} at depth {depth}: {what}", cid=str(cid), depth=depth, what=what
    ) from cause
