"""Order-preserving bytes for tuples: packed keys sort exactly as the tuples do.

```
bytes   01 <bytes, 00 written as 00 FF> 00          int     0C..13 <8..1 bytes>   negative, one's complement
text    02 <UTF-8, 00 written as 00 FF> 00                  14                    zero
UUID    30 <16 bytes>                                       15..1C <1..8 bytes>   positive, big-endian
stamp   33 <12 bytes>
```

The bytes are those of FoundationDB's tuple layer for these types, so keys are the same on every engine and
readable with its tools. Types order as their codes do: bytes, text, int, UUID, stamp. `unpack` accepts only
what `pack` makes: one tuple, one key. Which tuples exist is the business of `store/keys.py`.

Rejected: null, floats, booleans, nested tuples and longer integers. No key has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from cellule.errors import Rejected
from cellule.store.engine import STAMP_BYTES, Stamp

BYTES_CODE = 0x01
TEXT_CODE = 0x02
ZERO_CODE = 0x14
UUID_CODE = 0x30
STAMP_CODE = 0x33
INT_BYTES_MAX = 8
INT_MAX = (1 << 64) - 1


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A commit stamp as an element of a key."""

    stamp: Stamp


Element = bytes | str | int | UUID | Position


def pack(*elements: Element) -> bytes:
    """Return the key of a tuple.

    >>> pack("w", 5, b"a\\0").hex()
    '0277001505016100ff00'
    """
    return b"".join([_packed(element) for element in elements])


def pack_bytes(element: bytes) -> bytes:
    """Return the key of one byte string: what `pack` makes of it."""
    return b"\x01" + element.replace(b"\0", b"\0\xff") + b"\0"


def unpack(key: bytes) -> tuple[Element, ...]:
    """Return the tuple whose key this is; refuse bytes that `pack` does not make."""
    return tuple(_elements(key))


def prefix_range(prefix: bytes) -> tuple[bytes, bytes]:
    """Return `[begin, end)` around the key `prefix` and every key that continues its tuple.

    The end is the prefix + FF, above every element code. The next byte string behind the prefix would not do:
    the text `"a\\0b"` begins with the bytes of the text `"a"` but does not continue its tuple.
    """
    return prefix, prefix + b"\xff"


def _packed(element: Element) -> bytes:
    match element:
        case bool():
            raise _refused(element)
        case str():
            return b"\x02" + _utf8(element).replace(b"\0", b"\0\xff") + b"\0"
        case int():
            return _packed_int(element)
        case bytes():
            return pack_bytes(element)
        case UUID():
            return b"\x30" + element.bytes
        case Position() if len(element.stamp) == STAMP_BYTES:
            return b"\x33" + element.stamp
        case _:
            raise _refused(element)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _refused(text) from error


def _packed_int(number: int) -> bytes:
    magnitude = abs(number)
    if magnitude > INT_MAX:
        raise _refused(number)
    size = (magnitude.bit_length() + 7) // 8
    if number >= 0:
        return bytes((ZERO_CODE + size,)) + number.to_bytes(size, "big")
    return bytes((ZERO_CODE - size,)) + (number + (1 << 8 * size) - 1).to_bytes(size, "big")


def _refused(element: object) -> Rejected:
    return Rejected(
        "store.tuple_element", "{element} of type {kind} cannot stand in a key",
        element=element if isinstance(element, int) else repr(element)[:80], kind=type(element).__name__,
        hint="Keys hold bytes, text of valid UTF-8, integers of up to 64 bits and a sign, UUIDs and stamps.",
    )  # fmt: skip


def _elements(key: bytes) -> Iterator[Element]:
    at = 0
    while at < len(key):
        code = key[at]
        if code in (BYTES_CODE, TEXT_CODE):
            end = _terminator(key, at + 1)
            yield _string(key, at, end)
            at = end + 1
            continue
        size = _fixed_size(key, at, code)
        if at + 1 + size > len(key):
            raise _malformed(key, at, "the element is cut off")
        yield _fixed(key, at, key[at + 1 : at + 1 + size])
        at += 1 + size


def _terminator(key: bytes, at: int) -> int:
    """The position of the first 00 at or after `at` that is not part of an escaped 00 FF."""
    while (end := key.find(b"\0", at)) >= 0:
        if key[end + 1 : end + 2] != b"\xff":
            return end
        at = end + 2
    raise _malformed(key, at, "a string has no end")


def _string(key: bytes, at: int, end: int) -> bytes | str:
    raw = key[at + 1 : end].replace(b"\0\xff", b"\0")
    if key[at] == BYTES_CODE:
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _malformed(key, at, "a text is not UTF-8") from error


def _fixed_size(key: bytes, at: int, code: int) -> int:
    if code == UUID_CODE:
        return 16
    if code == STAMP_CODE:
        return STAMP_BYTES
    size = abs(code - ZERO_CODE)
    if size > INT_BYTES_MAX:
        raise _malformed(key, at, "the element code is unknown")
    return size


def _fixed(key: bytes, at: int, raw: bytes) -> Element:
    code = key[at]
    if code == UUID_CODE:
        return UUID(bytes=raw)
    if code == STAMP_CODE:
        return Position(Stamp(raw))
    number = int.from_bytes(raw, "big")
    if code < ZERO_CODE:
        number -= (1 << 8 * len(raw)) - 1
    if (abs(number).bit_length() + 7) // 8 != len(raw):
        raise _malformed(key, at, "an integer is longer than needed")
    return number


def _malformed(key: bytes, at: int, reason: str) -> Rejected:
    return Rejected(
        "store.key_malformed", "{reason} at byte {at} of key {key}", reason=reason, at=at, key=key,
        hint="Only keys made by cellule.store.keys can be taken apart.",
    )  # fmt: skip
