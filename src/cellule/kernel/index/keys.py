"""Keys of indexes: byte strings, compared as bytes. A pair key sorts by two numbers; a prefix is a range."""

from __future__ import annotations

from typing import TypeGuard

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


def is_number(value: object) -> TypeGuard[int]:
    """Tell whether a pair key takes this, which may be anything.

    >>> is_number(7), is_number(-1), is_number(True), is_number("7")
    (True, False, False, False)
    """
    return type(value) is int and 0 <= value <= _MOST


def pairs_from(first: int) -> tuple[bytes, bytes]:
    """The range of all pair keys that begin with this number."""
    return pair_key(first, 0), pair_key(first, _MOST) + b"\0"


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
