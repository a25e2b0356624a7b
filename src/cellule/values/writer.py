"""The exact writer: any value to canonical bytes, or an error that says what is wrong and where.

It is the executable specification of encoding; `cbor.encode` comes here for values that hold links or tuples,
for byte strings that libipld would take for a CID, and to explain why libipld refused. It visits depth first
with a stack of its own and counts bytes, so no value makes it recurse, hang or grow without bound.

Rejected: cbor2 in plain mode over maps we sorted. It is faster than this, but cannot say where a fault
stands, and common values with links do not come here: libipld writes a copy with bare CIDs in half its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import itemgetter
from struct import Struct
from typing import Final

from cellule.errors import Rejected
from cellule.values.cid import Cid, cid_fault
from cellule.values.limits import BYTES_MAX, DEPTH_MAX, INT_MAX, INT_MIN
from cellule.values.link import Link
from cellule.values.path import path_text

BYTES: Final = 0x40
LIST: Final = 0x80
_UNSIGNED, _NEGATIVE, _TEXT, _MAP = 0x00, 0x20, 0x60, 0xA0
_LINK_HEAD: Final = b"\xd8\x2a\x58\x25\x00"
_by_text = itemgetter(0)
_float = Struct(">Bd").pack

# What is left of an open list or map: the step's name, the bytes before the child, the child.
_Children = Iterator[tuple[str | int, bytes, object]]


def write(value: object) -> bytes:
    """Return the canonical bytes of `value`; raise `Rejected` for what has none."""
    parts: list[bytes] = []
    levels: list[_Children] = []
    steps: list[str | int] = []
    size = 0
    following: tuple[str | int, bytes, object] | None = ("", b"", value)
    while following is not None:
        before, item = following[1:]
        part = _scalar(item, steps)
        if part is None:
            if len(levels) == DEPTH_MAX:
                raise _fault(
                    "values.too_deep", "the value nests more than {most} levels", steps, most=DEPTH_MAX
                )
            part, children = _opened(item, steps)
            levels.append(children)
            steps.append("")
        parts += (before, part)
        size += len(before) + len(part)
        if size > BYTES_MAX:
            raise _fault("values.too_large", "the value encodes to over {most} bytes", steps, most=BYTES_MAX)
        following = _next(levels, steps)
    return b"".join(parts)


def _next(levels: list[_Children], steps: list[str | int]) -> tuple[str | int, bytes, object] | None:
    """Step to the next child, closing the lists and maps that have none left."""
    while levels:
        following = next(levels[-1], None)
        if following is not None:
            steps[-1] = following[0]
            return following
        levels.pop()
        steps.pop()
    return None


def _opened(item: object, steps: list[str | int]) -> tuple[bytes, _Children]:
    """Return the head of a list or map and what it holds, in canonical order."""
    if isinstance(item, dict):
        entries = [(_key(key, steps), key, child) for key, child in dict.items(item)]
        entries.sort(key=_by_text)
        for (text, _, _), (other, key, _) in pairwise(entries):
            if text == other:
                raise _fault(
                    "values.key_duplicate", "key {key!r} stands twice in the map", steps, key=str(key)
                )
        return head(_MAP, len(entries)), ((key, text, child) for text, key, child in entries)
    assert isinstance(item, list | tuple)
    items = list.copy(item) if isinstance(item, list) else tuple.__getitem__(item, slice(None))
    return head(LIST, len(items)), ((index, b"", child) for index, child in enumerate(items))


def _key(key: object, steps: list[str | int]) -> bytes:
    """Encode a map key. Encoded keys sort as the format asks: shorter first, then by bytes."""
    if not isinstance(key, str):
        raise _fault(
            "values.key_not_text", "a map has the key {key} of type {kind}; keys are text", steps,
            key=repr(key)[:80], kind=type(key).__name__,
            hint="Give maps with other keys as a list of pairs.",
        )  # fmt: skip
    return _text(key, steps)


def _scalar(item: object, steps: list[str | int]) -> bytes | None:
    """Encode all but lists and maps; those give `None`."""
    known = _SCALARS.get(type(item))
    if known is not None:
        return known(item, steps)
    if isinstance(item, list | dict | tuple):
        return None
    for base in (int, str, bytes, float):
        if isinstance(item, base):
            return _SCALARS[base](item, steps)
    raise _type_fault(item, steps)


def _int(item: int, steps: list[str | int]) -> bytes:
    number = int.__index__(item)
    if number < INT_MIN or number > INT_MAX:
        raise _fault(
            "values.int_range", "an integer of {bits} bits is outside -2^64..2^64-1", steps,
            bits=number.bit_length(), hint="Give large numbers as text or bytes.",
        )  # fmt: skip
    return head(_UNSIGNED, number) if number >= 0 else head(_NEGATIVE, -1 - number)


def _real(item: float, steps: list[str | int]) -> bytes:
    number = float.__float__(item)
    if not math.isfinite(number):
        raise _fault("values.float_not_finite", "{number} is no value", steps, number=str(number))
    if number == 0 and math.copysign(1.0, number) < 0:
        raise _fault("values.negative_zero", "-0.0 is no value", steps, hint="Add 0.0 to make it 0.0.")
    return _float(0xFB, number)


def _text(item: str, steps: list[str | int]) -> bytes:
    try:
        raw = str.encode(item, "utf-8")
    except UnicodeEncodeError as error:
        raise _fault(
            "values.text_surrogate", "a text holds {char} at position {position}, which is half a character",
            steps, char=f"U+{ord(item[error.start]):04X}", position=error.start,
        ) from error  # fmt: skip
    return head(_TEXT, len(raw)) + raw


def _binary(item: bytes, _steps: list[str | int]) -> bytes:
    raw = b"".join((item,))
    return head(BYTES, len(raw)) + raw


def _link(item: Link, steps: list[str | int]) -> bytes:
    fault = cid_fault(item.cid)
    if fault:
        raise _fault(
            "values.bad_link",
            "a link holds {raw}, which is no CID: {fault}",
            steps,
            raw=item.cid,
            fault=fault,
        )
    return _LINK_HEAD + item.cid


def _bare_cid(item: Cid, steps: list[str | int]) -> bytes:
    if cid_fault(item):
        return _binary(item, steps)
    raise _fault(
        "values.bare_cid", "the CID {cid} stands in a value as bare bytes", steps, cid=str(item),
        hint="Wrap it: Link(cid).",
    )  # fmt: skip


_SCALARS: Final[dict[type, Callable[..., bytes]]] = {
    type(None): lambda _item, _steps: b"\xf6",
    bool: lambda item, _steps: b"\xf5" if item else b"\xf4",
    int: _int,
    float: _real,
    str: _text,
    bytes: _binary,
    Link: _link,
    Cid: _bare_cid,
}


def head(major: int, argument: int) -> bytes:
    """The first byte (major type, and the argument or its width), then the argument, as short as possible."""
    if argument < 24:
        return bytes((major | argument,))
    if argument < 0x100:
        return bytes((major | 24, argument))
    if argument < 0x1_0000:
        return bytes((major | 25,)) + argument.to_bytes(2, "big")
    if argument < 0x1_0000_0000:
        return bytes((major | 26,)) + argument.to_bytes(4, "big")
    return bytes((major | 27,)) + argument.to_bytes(8, "big")


def _type_fault(item: object, steps: list[str | int]) -> Rejected:
    hint = "Values are None, bool, int, float, str, bytes, list, dict and Link."
    if isinstance(item, bytearray | memoryview):
        hint = "Copy it: bytes(...)."
    if isinstance(item, set | frozenset):
        hint = "Give a set as a list sorted by encoded bytes; a schema does it for you."
    return _fault("values.type_unknown", "{kind} is no value", steps, kind=type(item).__qualname__, hint=hint)


def _fault(code: str, message: str, steps: list[str | int], *, hint: str = "", **fields: object) -> Rejected:
    return Rejected(code, message + " (at {path}).", hint=hint, path=path_text(steps), **fields)
