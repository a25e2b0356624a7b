"""Keys of indexes: byte strings, compared as bytes. A pair key sorts by two numbers; a prefix is a range."""

from __future__ import annotations

from cellule.errors import Corrupted, Rejected

_WIDTH = 8
_MOST = (1 << (8 * _WIDTH)) - 1


def pair_key(first: int, second: int) -> bytes:
    """A key that sorts by `first`, then by `second`: two unsigned 64-bit numbers, big-endian.

    >>> pair_key(1, 2).hex()
    '00000000000000010000000000000002'
    """
    if not 0 <= first <= _MOST or not 0 <= second <= _MOST:
        raise Rejected(
            "kernel.pair_key", "({first}, {second}) does not fit two unsigned 64-bit numbers",
            first=first, second=second,
        )  # fmt: skip
    return ((first << 64) | second).to_bytes(2 * _WIDTH, "big")


def pair_of(key: bytes) -> tuple[int, int]:
    """The two numbers of a pair key."""
    if len(key) != 2 * _WIDTH:
        raise Corrupted("kernel.pair_key_damaged", "key {key} is not two 64-bit numbers", key=key)
    return int.from_bytes(key[:_WIDTH], "big"), int.from_bytes(key[_WIDTH:], "big")


def prefix_end(prefix: bytes) -> bytes | None:
    """The first key after all that begin with `prefix`; None where there is none.

    >>> prefix_end(b"ab")
    b'ac'
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
