"""The engine contract: an ordered key-value store with atomic conditional batches.

Everything durable is a layer over these few methods. Implementations live in `store/engines/`; one
conformance suite (`cellule.testing.conformance`) runs against each of them, differentially against memory.
The engine never retries: the caller knows whether the same bytes may be submitted again.

Keys are made only by `store/keys.py`. A key whose first byte is `COUNTER` holds a counter (8 bytes,
signed, little-endian, no checksum; changed by `add` only); every other key holds a value.

Rejected: telling counters from values by stored length. A 4-byte value with its checksum is 8 bytes too.
Rejected: retrying conflicts here. Only the layer that chose the expected values can choose them anew.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol, runtime_checkable

from cellule.errors import Rejected
from cellule.store.resource import Resource

KEY_BYTES_MAX = 1_000
VALUE_BYTES_MAX = 90_000
_ROWS_FEW = 16
BATCH_BYTES_MAX = 8_000_000
BATCH_ORDERED_MAX = 65_535
SCAN_LIMIT_MAX = 10_000
PAGE_BYTES_MAX = 4_000_000
STAMP_BYTES = 12
COUNTER = b"\x01"
_COUNTER_BYTE = COUNTER[0]

Row = tuple[bytes, bytes]
"""A key and the value under it."""

Stamp = NewType("Stamp", bytes)
"""10 bytes of commit order, then 2 bytes of position in the batch: compares as bytes."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Conditional writes, applied as a whole if every expected key holds exactly the value given.

    The order of effects: `expect` is compared, `clear_range` clears `[begin, end)`, then `set`, `clear`,
    `add` (a missing counter counts from 0; sums wrap at 64 bits) and `ordered`, which stores each value under
    its prefix + a fresh stamp. A key stands in at most one of `set`, `clear`, `add`. An expected `None` means
    absent, and then the batch must set that key. Counters cannot be expected or set. Ranges stay inside one
    key family and have no other writer at that time.
    """

    expect: Mapping[bytes, bytes | None] = field(default_factory=dict)
    set: Mapping[bytes, bytes] = field(default_factory=dict)
    clear: Collection[bytes] = ()
    clear_range: Sequence[tuple[bytes, bytes]] = ()
    add: Mapping[bytes, int] = field(default_factory=dict)
    ordered: Sequence[tuple[bytes, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """One slice of a scan: `items` in scan order; `more` tells that the range holds further keys."""

    items: list[Row]
    more: bool


class Engine(Resource, Protocol):
    """Ordered keys, one snapshot a read, atomic conditional batches, watches.

    Reads and scans see every batch acknowledged before they began, and never part of one. All methods
    raise `Unavailable` when the surroundings fail, `Corrupted` when a stored row fails its checksum,
    `Rejected` when a limit of this module is exceeded. A crash loses no acknowledged batch.
    """

    async def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of `keys`, in their order, from one snapshot; `None` where absent."""

    async def scan(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Page:
        """Return at most `limit` rows of `[begin, end)` from one snapshot; causes no conflict.

        A page may end early at `PAGE_BYTES_MAX`; `more` then says so. Continue from the last key
        (`last + b"\\0"`, or `end=last` in reverse).
        """

    def rows(self) -> AsyncGenerator[list[Row], None]:
        """Yield every row of the store, page by page, all of one snapshot; in key order inside each family.

        The snapshot holds every batch acknowledged before the first page was asked for. It is kept until the
        generator ends: close it where it is left early. For copies and checks of whole stores.
        """

    async def commit(self, batch: Batch) -> list[Stamp]:
        """Apply `batch` as a whole, durably, and return one stamp per `ordered` entry.

        Raises `Conflict` (an expectation failed; nothing changed), `Unavailable` (nothing changed),
        `OutcomeUnknown` (it may have been applied; once a later commit that *changed* a key it expects
        has succeeded, it can no longer be). Stamps are unique and follow real time: a batch begun after
        another was acknowledged gets larger ones; a smaller one may become visible after a larger. A caller
        that is cancelled while it waits knows as little as after `OutcomeUnknown`.
        """

    async def watch(self, key: bytes, seen: bytes | None) -> None:
        """Return once the value of `key` differs from `seen`; may return for nothing."""

    async def close(self) -> None:
        """Release everything. Commits already submitted finish first; later calls raise `Unavailable`."""


@runtime_checkable
class ServerClock(Protocol):
    """An engine behind a server, whose clock may differ from this machine's."""

    async def server_time_ns(self) -> int:
        """Return what the server's clock shows."""


def is_counter(key: bytes) -> bool:
    """Tell whether `key` names a counter."""
    return key[:1] == COUNTER


def counter_value(stored: bytes | None) -> int:
    """Read a counter as `read` returned it; absent counts as 0."""
    return 0 if stored is None else int.from_bytes(stored, "little", signed=True)


def check_key(key: bytes) -> None:
    """Refuse a key that is empty or too long."""
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        raise Rejected(
            "store.key_size", "key {key} has {size} bytes; keys have 1 to {most}",
            key=key, size=len(key), most=KEY_BYTES_MAX,
        )  # fmt: skip


def check_scan(begin: bytes, end: bytes, limit: int) -> None:
    """Refuse a scan without a sensible limit or with bounds that are no keys."""
    for bound in (begin, end):
        if len(bound) > KEY_BYTES_MAX:
            check_key(bound)
    if not 1 <= limit <= SCAN_LIMIT_MAX:
        raise Rejected(
            "store.scan_limit",
            "a scan takes limit 1 to {most}, not {limit}",
            limit=limit,
            most=SCAN_LIMIT_MAX,
        )


def check_batch(batch: Batch) -> int:
    """Refuse a batch that breaks a limit or names a key twice; every engine calls this first.

    Returns how many bytes the batch has.
    """
    size = _check_sizes(batch)
    for key in batch.set:
        if key[0] == _COUNTER_BYTE:
            raise Rejected("store.counter_set", "key {key} is a counter: use add, not set", key=key)
    for key, expected in batch.expect.items():
        if key[0] == _COUNTER_BYTE:
            raise Rejected("store.counter_expected", "key {key} is a counter and cannot be expected", key=key)
        # Engines lock rows that exist: only writing a row keeps it from being made by another.
        if expected is None and key not in batch.set:
            raise Rejected("store.absent_not_set", "key {key} is expected absent but not set", key=key)
    for key in batch.clear:
        if key in batch.set or key in batch.add:
            raise Rejected("store.key_twice", "key {key} is cleared and also set or added to", key=key)
    if batch.add:
        size += _check_counters(batch)
    for begin, end in batch.clear_range:
        size += _sized(begin, b"") + _sized(end, b"")
    if batch.ordered:
        size += _check_ordered(batch)
    if size > BATCH_BYTES_MAX:
        raise Rejected(
            "store.batch_size", "a batch of {size} bytes is over {most}", size=size, most=BATCH_BYTES_MAX
        )
    return size


def _check_sizes(batch: Batch) -> int:
    """How many bytes the rows named by a batch have; refuses what is too long.

    Many rows are looked at in a few native calls, which cost more than the loop for some.
    """
    if len(batch.set) + len(batch.expect) + len(batch.clear) > _ROWS_FEW:
        expected = [value for value in batch.expect.values() if value is not None]
        keys = list(map(len, [*batch.set, *batch.expect, *batch.clear]))
        values = list(map(len, [*batch.set.values(), *expected]))
        if min(keys) > 0 and max(keys) <= KEY_BYTES_MAX and max(values, default=0) <= VALUE_BYTES_MAX:
            return sum(keys) + sum(values)
    size = 0
    for key, value in batch.set.items():
        size += _sized(key, value)
    for key, held in batch.expect.items():
        size += _sized(key, held or b"")
    for key in batch.clear:
        size += _sized(key, b"")
    return size


def _check_counters(batch: Batch) -> int:
    size = 0
    for key, delta in batch.add.items():
        size += _sized(key, b"") + 8
        if key[:1] != COUNTER:
            raise Rejected("store.not_a_counter", "key {key} is not a counter: use set, not add", key=key)
        if not -(1 << 63) <= delta < 1 << 63:
            raise Rejected(
                "store.counter_delta", "{delta} does not fit 64 bits (key {key})", key=key, delta=delta
            )
    return size


def _check_ordered(batch: Batch) -> int:
    if len(batch.ordered) > BATCH_ORDERED_MAX:
        raise Rejected(
            "store.batch_ordered", "a batch has {count} ordered values; at most {most}",
            count=len(batch.ordered), most=BATCH_ORDERED_MAX,
        )  # fmt: skip
    size = 0
    for prefix, value in batch.ordered:
        size += _sized(prefix + bytes(STAMP_BYTES), value)
        if prefix[:1] == COUNTER:
            raise Rejected(
                "store.counter_set", "keys below {key} are counters: use add, not ordered", key=prefix
            )
    return size


def _sized(key: bytes, value: bytes) -> int:
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        check_key(key)
    if len(value) > VALUE_BYTES_MAX:
        raise Rejected(
            "store.value_size", "the value of key {key} has {size} bytes; at most {most}",
            key=key, size=len(value), most=VALUE_BYTES_MAX,
            hint="Longer values are chunked by the layer above.",
        )  # fmt: skip
    return len(key) + len(value)
