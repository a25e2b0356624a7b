"""Stored rows: what an engine keeps under a key, and the checksum that proves it.

```
value row     | value, 0 to 90,000 bytes | CRC-32 over key + value, 4 bytes big-endian |
counter row   | 8 bytes, signed, little-endian |
```

The checksum covers the key, so a row that was moved under another key is found too. Counters have none,
because a database adds to them in place. What a value means does not live here.

Rejected: a cryptographic checksum. It guards against decay, not against attackers; CRC-32 costs under half a
microsecond for a small row, and everything that needs an identity has a CID.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from cellule.errors import Corrupted
from cellule.store.engine import counter_value, is_counter

CHECKSUM_BYTES = 4
COUNTER_BYTES = 8


def seal_row(key: bytes, value: bytes) -> bytes:
    """Return the stored form of `value` under `key`.

    >>> seal_row(b"key", b"value").hex()
    '76616c7565c655f3e6'
    """
    return value + crc32(value, crc32(key)).to_bytes(4, "big")


def open_row(key: bytes, stored: bytes) -> bytes:
    """Return what `read` gives for a row: the value, or a counter's 8 bytes; `Corrupted` if it is damaged."""
    if is_counter(key):
        return _checked_counter(key, stored)
    value = stored[:-4]
    if stored[-4:] != crc32(value, crc32(key)).to_bytes(4, "big"):
        raise _damaged(key, stored)
    return value


def open_rows(rows: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Open many stored rows, keeping their order; `Corrupted` at the first damaged one."""
    return [(key, open_row(key, stored)) for key, stored in rows]


def wrap64(number: int) -> int:
    """Return `number` wrapped into the signed 64-bit range, as a counter does.

    >>> wrap64((1 << 63) - 1 + 1) == -(1 << 63)
    True
    """
    return ((number + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def seal_counter(number: int) -> bytes:
    """Return the stored form of a counter."""
    return number.to_bytes(COUNTER_BYTES, "little", signed=True)


def add_counter(key: bytes, stored: bytes | None, delta: int) -> bytes:
    """Return the stored form of the counter after adding `delta`; a missing one counts from 0."""
    if stored is not None:
        _checked_counter(key, stored)
    return seal_counter(wrap64(counter_value(stored) + delta))


def _checked_counter(key: bytes, stored: bytes) -> bytes:
    if len(stored) != COUNTER_BYTES:
        raise Corrupted(
            "store.counter_damaged", "the counter {key} is stored in {size} bytes instead of 8",
            key=key, size=len(stored),
            hint="Stop writing to this store, run a check of the whole database, and restore from a backup.",
        )  # fmt: skip
    return stored


def _damaged(key: bytes, stored: bytes) -> Corrupted:
    return Corrupted(
        "store.row_damaged", "the row under key {key} ({size} bytes) fails its checksum",
        key=key, size=len(stored),
        hint="Stop writing to this store, run a check of the whole database, and restore from a backup.",
    )  # fmt: skip
