"""Which ids were applied: kernel state in time buckets.

The newest bucket is a dict; a full one is closed into sorted arrays with a filter of 4-byte prints. After a
snapshot a closed bucket's arrays live in the CAS and are read only when its filter answers. A bucket leaves
when its newest id is older than the window and enough younger ids remain, or when there are too many ids;
from then on an item issued before the oldest kept id is too old to be judged, and is refused. No id leaves
before `DEDUPE_KEPT_NS`: where so many come that one would have to, further ones are refused.

    bucket  = {checks: 4 bytes an id, heights: 8 bytes an id, ids: 16 bytes an id}   sorted by id, big-endian
    prints  = 4 bytes an id, sorted
    dedupe  = {buckets: [{bucket, count, prints, since_ns, until_ns}], conflicts, floor_ns, open}

A conflict of versions changed nothing, so it leaves its id to be used again: `conflicts` has, by id, the
height of the event and a check of what was expected. An item that expects something else is a new attempt;
one that expects the same gets the old answer. Of very many conflicts the oldest keep their ids used.

Buckets roll only at the end of a frame, by the frame's own time: replay rolls at the same places.
Rejected: a Bloom filter. A print's bisection in an array is one C call, a filter's probes are seven.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Container, Generator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID
from zlib import crc32

from cellule.errors import Corrupted, ensure
from cellule.kernel.journal.fields import given_arguments
from cellule.kernel.limits import (
    DEDUPE_BUCKET_IDS,
    DEDUPE_CONFLICTS_MAX,
    DEDUPE_IDS_MAX,
    DEDUPE_IDS_MIN,
    DEDUPE_KEPT_NS,
    DEDUPE_WINDOW_NS,
)
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.state.snapshot_schema import is_bucket
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link

_UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Seen(NamedTuple):
    """The first admission of an id: its record's height and a check of its payload."""

    height: int
    check: int


class Bucket:
    """A closed bucket: its span, its filter, and its arrays (or only their CIDs once they are durable)."""

    __slots__ = ("bucket_cid", "count", "data", "prints", "prints_cid", "since_ns", "until_ns")

    def __init__(self, since_ns: int, until_ns: int, count: int) -> None:
        self.since_ns = since_ns
        self.until_ns = until_ns
        self.count = count
        self.data: dict[str, Any] | None = None
        self.prints: array[int] | None = None
        self.bucket_cid: Cid | None = None
        self.prints_cid: Cid | None = None


def dedupe_key(event_id: str | bytes | UUID) -> bytes:
    """16 bytes: a UUID as it is, also where its text is given; anything else by its truncated sha-256."""
    if isinstance(event_id, UUID):
        return event_id.bytes
    if isinstance(event_id, bytes):
        return event_id if len(event_id) == 16 else sha256(event_id).digest()[:16]
    if _UUID_TEXT.fullmatch(event_id):
        return bytes.fromhex(event_id.replace("-", ""))
    return sha256(event_id.encode()).digest()[:16]


def payload_check(schema: str, value: bytes) -> int:
    """The CRC-32 by which the same id with another payload is told apart."""
    return crc32(value, crc32(schema.encode()))


def control_check(verb: str, who: str, why: str, arguments: Mapping[str, Any]) -> int:
    """The same for an operator's verb; what the kernel adds to its arguments does not count."""
    return crc32(encode([verb, who, why, given_arguments(verb, arguments)]))


class Dedupe:
    """The ids a world remembers."""

    def __init__(self) -> None:
        self.open: dict[bytes, Seen] = {}
        self.closed: list[Bucket] = []
        self.conflicts: dict[bytes, Seen] = {}
        self.since_ns = 0
        self.until_ns = 0
        self.floor_ns = 0

    def count(self) -> int:
        """How many ids are remembered."""
        return len(self.open) + sum(bucket.count for bucket in self.closed)

    def find(self, key: bytes, nodes: Nodes) -> Generator[Need, None, Seen | None]:
        """The first admission of `key`, or None."""
        seen = self.open.get(key)
        if seen is not None or not self.closed:
            return seen
        mark = int.from_bytes(key[12:], "big")
        for bucket in reversed(self.closed):
            if bucket.prints is None:
                yield from self._load_prints(nodes)
            prints = bucket.prints
            assert prints is not None
            position = bisect_left(prints, mark)
            if position < len(prints) and prints[position] == mark:
                seen = yield from _search(bucket, key, nodes)
                if seen is not None:
                    return seen
        return None

    def add(self, key: bytes, height: int, check: int, now_ns: int) -> None:
        """Remember an admitted id."""
        if not self.open:
            self.since_ns = now_ns
        self.until_ns = now_ns
        self.open[key] = Seen(height, check)

    def add_conflict(self, key: bytes, height: int, expected: int) -> None:
        """The event at a height met another version: its id may be used again with another expectation."""
        self.conflicts[key] = Seen(height, expected)

    def is_new_attempt(self, key: bytes, seen: Seen, expected: int) -> bool:
        """Tell whether an id that was seen is free for an item that expects this."""
        last = self.conflicts.get(key)
        return last is not None and last.height == seen.height and last.check != expected

    def roll(self, now_ns: int) -> None:
        """Close a full bucket and let old ones go; called once at the end of every frame."""
        if len(self.conflicts) > DEDUPE_CONFLICTS_MAX:
            by_height = sorted((seen.height, key) for key, seen in self.conflicts.items())
            newest = by_height[-(DEDUPE_CONFLICTS_MAX // 2) :]
            self.conflicts = {key: self.conflicts[key] for _, key in newest}
        if len(self.open) >= DEDUPE_BUCKET_IDS:
            self.closed.append(_close(self.open, self.since_ns, self.until_ns))
            self.open = {}
        if not self.closed:
            return
        total = self.count()
        while self.closed:
            oldest = self.closed[0]
            left = total - oldest.count
            # A flood does not push out young ids: their senders may be repeating them just now.
            aged = oldest.until_ns < now_ns - DEDUPE_WINDOW_NS and left >= DEDUPE_IDS_MIN
            if not aged and (total <= DEDUPE_IDS_MAX or _is_young(oldest, now_ns)):
                return
            self.closed.pop(0)
            total = left
            kept_ns = self.closed[0].since_ns if self.closed else self.since_ns
            floor_ns = max(kept_ns, oldest.until_ns + 1)  # both buckets may hold ids of one moment
            # A floor that fell would take an id that was forgotten for one that never came.
            ensure(floor_ns >= self.floor_ns, "kernel.floor_order", "the floor falls to {ns}", ns=floor_ns)
            self.floor_ns = floor_ns

    def is_full(self, now_ns: int) -> bool:
        """Tell whether one more id would push out one that its sender may just be presenting again."""
        return bool(self.closed) and _is_young(self.closed[0], now_ns) and self.count() >= DEDUPE_IDS_MAX

    def save(self, blocks: dict[Cid, bytes]) -> dict[str, Any]:
        """The dedupe part of a snapshot; new arrays are added to `blocks`."""
        for bucket in self.closed:
            if bucket.bucket_cid is None:
                assert bucket.data is not None
                assert bucket.prints is not None
                bucket.bucket_cid = _put(blocks, encode(bucket.data))
                bucket.prints_cid = _put(blocks, encode(_big_endian(bucket.prints)))
        opened: dict[str, Any] | None = None
        if self.open:
            cid = _put(blocks, encode(_arrays(self.open)))
            opened = {"bucket": Link(cid), "since_ns": self.since_ns, "until_ns": self.until_ns}
        left = Link(_put(blocks, encode(_arrays(self.conflicts)))) if self.conflicts else None
        return {
            "buckets": [_described(bucket) for bucket in self.closed],
            "conflicts": left,
            "floor_ns": self.floor_ns,
            "open": opened,
        }

    def forget_saved(self, saved: Container[Cid]) -> None:
        """Drop the arrays of buckets that are among the saved blocks; their filters stay."""
        for bucket in self.closed:
            if bucket.bucket_cid in saved:
                bucket.data = None

    def check(self, nodes: Nodes) -> Generator[Need, None, None]:
        """Read all closed buckets and prove that they hold as many sorted ids as they say."""
        if any(bucket.prints is None for bucket in self.closed):
            yield from self._load_prints(nodes)
        for bucket in self.closed:
            assert bucket.bucket_cid is not None
            data = yield from _arrays_of(bucket.bucket_cid, nodes)
            ids = [key for key, _ in _rows(data)]
            prints = [int.from_bytes(key[12:], "big") for key in ids]
            if ids != sorted(set(ids)) or bucket.prints != array("I", sorted(prints)):
                raise Corrupted(
                    "kernel.bucket_damaged", "{cid} is not a bucket of ids", cid=str(bucket.bucket_cid)
                )

    @classmethod
    def load(cls, saved: dict[str, Any], nodes: Nodes) -> Generator[Need, None, Dedupe]:
        """Rebuild from a snapshot: the open bucket is read, closed ones wait for a hit."""
        dedupe = cls()
        dedupe.floor_ns = saved["floor_ns"]
        for row in saved["buckets"]:
            bucket = Bucket(row["since_ns"], row["until_ns"], row["count"])
            bucket.bucket_cid, bucket.prints_cid = row["bucket"].cid, row["prints"].cid
            dedupe.closed.append(bucket)
        if saved["open"] is not None:
            arrays = yield from _arrays_of(saved["open"]["bucket"].cid, nodes)
            dedupe.open = dict(_rows(arrays))
            dedupe.since_ns, dedupe.until_ns = saved["open"]["since_ns"], saved["open"]["until_ns"]
        if saved["conflicts"] is not None:
            dedupe.conflicts = dict(_rows((yield from _arrays_of(saved["conflicts"].cid, nodes))))
        return dedupe

    def _load_prints(self, nodes: Nodes) -> Generator[Need, None, None]:
        """Read the filters of all buckets that lack theirs, together."""
        missing = [bucket for bucket in self.closed if bucket.prints is None]
        found = yield from fetch(nodes, tuple(bucket.prints_cid for bucket in missing if bucket.prints_cid))
        for bucket in missing:
            assert bucket.prints_cid is not None
            prints: Any = decode_trusted(found[bucket.prints_cid])
            if not isinstance(prints, bytes) or len(prints) != 4 * bucket.count:
                raise Corrupted(
                    "kernel.bucket_damaged", "{cid} is not a bucket of ids", cid=str(bucket.prints_cid)
                )
            bucket.prints = _native(prints)


def _is_young(bucket: Bucket, now_ns: int) -> bool:
    return bucket.until_ns >= now_ns - DEDUPE_KEPT_NS


def _search(bucket: Bucket, key: bytes, nodes: Nodes) -> Generator[Need, None, Seen | None]:
    data: Any = bucket.data
    if data is None:
        assert bucket.bucket_cid is not None
        data = yield from _arrays_of(bucket.bucket_cid, nodes)
    ids: bytes = data["ids"]
    low = bisect_left(range(len(ids) // 16), key, key=lambda at: ids[at * 16 : at * 16 + 16])
    if ids[low * 16 : low * 16 + 16] != key:
        return None
    return _row(data, low)


def _arrays_of(cid: Cid, nodes: Nodes) -> Generator[Need, None, dict[str, bytes]]:
    found = yield from fetch(nodes, (cid,))
    data: Any = decode_trusted(found[cid])
    if not is_bucket(data):
        raise Corrupted("kernel.bucket_damaged", "{cid} is not a bucket of ids", cid=str(cid))
    arrays: dict[str, bytes] = data
    return arrays


def _row(data: dict[str, bytes], position: int) -> Seen:
    height = int.from_bytes(data["heights"][position * 8 : position * 8 + 8], "big")
    return Seen(height, int.from_bytes(data["checks"][position * 4 : position * 4 + 4], "big"))


def _rows(data: dict[str, bytes]) -> Generator[tuple[bytes, Seen], None, None]:
    ids = data["ids"]
    for position in range(len(ids) // 16):
        yield ids[position * 16 : position * 16 + 16], _row(data, position)


def _arrays(seen: dict[bytes, Seen]) -> dict[str, Any]:
    rows = sorted(seen.items())
    return {
        "checks": b"".join(row.check.to_bytes(4, "big") for _, row in rows),
        "heights": b"".join(row.height.to_bytes(8, "big") for _, row in rows),
        "ids": b"".join(key for key, _ in rows),
    }


def _close(seen: dict[bytes, Seen], since_ns: int, until_ns: int) -> Bucket:
    bucket = Bucket(since_ns, until_ns, len(seen))
    bucket.data = _arrays(seen)
    bucket.prints = array("I", sorted(int.from_bytes(key[12:], "big") for key in seen))
    return bucket


def _big_endian(prints: array[int]) -> bytes:
    return b"".join(mark.to_bytes(4, "big") for mark in prints)


def _native(data: Any) -> array[int]:
    return array("I", (int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)))


def _put(blocks: dict[Cid, bytes], data: bytes) -> Cid:
    cid = cid_of(data)
    blocks[cid] = data
    return cid


def _described(bucket: Bucket) -> dict[str, Any]:
    assert bucket.bucket_cid is not None
    assert bucket.prints_cid is not None
    return {
        "bucket": Link(bucket.bucket_cid), "count": bucket.count, "prints": Link(bucket.prints_cid),
        "since_ns": bucket.since_ns, "until_ns": bucket.until_ns,
    }  # fmt: skip
