"""The exact reader: bytes to a value, or an error that says what is wrong, at which byte, and where.

It is the executable specification of canonical bytes: `cbor.decode` accepts exactly what `scan` accepts, and
comes here to explain a refusal. It reads one item after the other with a stack of its own and never reserves
room for a declared length, so no input makes it recurse or hang, and what it builds is bounded by the input.

    head = major type (3 bits) | argument, or its width (5 bits), then 0, 1, 2, 4 or 8 bytes of argument

Rejected: a table-driven or generated parser. Every rule of the format should be one readable line here.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Final

from cellule.errors import Rejected
from cellule.values.cid import Cid, cid_fault
from cellule.values.limits import BYTES_MAX, DEPTH_MAX
from cellule.values.link import Link, Value
from cellule.values.path import path_text

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP, _TAG = range(7)
_MAJORS: Final = ("integer", "integer", "byte string", "text", "list", "map", "tag", "simple value")
_LINK_TAG: Final = 42
_SIMPLE: Final[dict[int, Value]] = {0xF4: False, 0xF5: True, 0xF6: None}
_FLOAT_HALF, _FLOAT_SINGLE, _FLOAT_DOUBLE, _UNDEFINED, _BREAK = 0xF9, 0xFA, 0xFB, 0xF7, 0xFF
_double = Struct(">d").unpack_from


class _Level:
    """A list or map that is still open: what it holds so far and how many items are missing."""

    __slots__ = ("items", "key", "key_raw", "left")

    def __init__(self, items: list[Value] | dict[str, Value], left: int) -> None:
        self.items = items
        self.left = left
        self.key: str | None = None
        self.key_raw: bytes | None = None

    def add(self, value: Value) -> None:
        if isinstance(self.items, list):
            self.items.append(value)
        else:
            assert self.key is not None
            self.items[self.key] = value
            self.key = None
        self.left -= 1

    def step(self) -> str | int | None:
        return len(self.items) if isinstance(self.items, list) else self.key


def scan(data: bytes) -> Value:
    """Return the value of canonical bytes; raise `Rejected` for any other bytes."""
    return _checked(data).run()


def scan_links(data: bytes) -> list[Cid]:
    """Return the links of canonical bytes, in document order; raise `Rejected` for any other bytes."""
    scanner = _checked(data)
    scanner.run()
    return scanner.links


def _checked(data: bytes) -> _Scan:
    if not isinstance(data, bytes):
        raise Rejected(
            "values.not_bytes", "a value is decoded from bytes, not from {kind}", kind=type(data).__name__,
            hint="Copy it: bytes(...).",
        )  # fmt: skip
    if len(data) > BYTES_MAX:
        raise Rejected(
            "values.too_large", "{size} bytes are too many for a value; at most {most}",
            size=len(data), most=BYTES_MAX,
        )  # fmt: skip
    return _Scan(data)


class _Scan:
    """One pass over `data`: `at` is the next byte, `levels` the open lists and maps from the outside in."""

    __slots__ = ("at", "data", "levels", "links")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.levels: list[_Level] = []
        self.links: list[Cid] = []

    def run(self) -> Value:
        while True:
            value = self.item()
            if isinstance(value, _Level):
                self.levels.append(value)
                if value.left:
                    self.start(value)
                    continue
                value = self.levels.pop().items
            while self.levels:
                level = self.levels[-1]
                level.add(value)
                if level.left:
                    self.start(level)
                    break
                value = self.levels.pop().items
            else:
                break
        if self.at != len(self.data):
            raise self.fault(
                "values.trailing_bytes",
                "{count} bytes follow the value",
                self.at,
                count=len(self.data) - self.at,
            )
        return value

    def start(self, level: _Level) -> None:
        """Read what stands before the next item of an open level: a key, if it is a map."""
        if isinstance(level.items, list):
            return
        begin = self.at
        if self.byte(begin) >> 5 != _TEXT:
            kind = _MAJORS[self.data[begin] >> 5]
            raise self.fault("values.key_not_text", "a map key is a {kind}; keys are text", begin, kind=kind)
        raw = self.chunk(begin, self.argument())
        key = self.text(raw)
        last = level.key_raw
        if last is not None and raw == last:
            raise self.fault("values.key_duplicate", "key {key!r} stands twice in the map", begin, key=key)
        if last is not None and (len(raw), raw) < (len(last), last):
            raise self.fault(
                "values.key_order", "key {key!r} stands after {last!r}", begin, key=key, last=last.decode(),
                hint="Keys are sorted by length, then by bytes.",
            )  # fmt: skip
        level.key, level.key_raw = key, raw

    def item(self) -> Value | _Level:
        """Read one item; a list or map comes back as a level to be filled."""
        begin = self.at
        major = self.byte(begin) >> 5
        if major > _TAG:
            return self.simple(begin)
        argument = self.argument()
        if major == _UNSIGNED:
            return argument
        if major == _NEGATIVE:
            return -1 - argument
        if major == _BYTES:
            return self.chunk(begin, argument)
        if major == _TEXT:
            return self.text(self.chunk(begin, argument))
        if major == _TAG:
            return self.link(begin, argument)
        return self.level(begin, major, argument)

    def level(self, begin: int, major: int, count: int) -> _Level:
        if len(self.levels) == DEPTH_MAX:
            raise self.fault(
                "values.too_deep", "the value nests more than {most} levels", begin, most=DEPTH_MAX
            )
        left = len(self.data) - self.at
        if count * (2 if major == _MAP else 1) > left:
            raise self.fault(
                "values.truncated", "a {kind} of {count} items cannot fit {left} bytes", begin,
                kind=_MAJORS[major], count=count, left=left,
            )  # fmt: skip
        return _Level({} if major == _MAP else [], count)

    def link(self, begin: int, tag: int) -> Link:
        if tag != _LINK_TAG:
            raise self.fault(
                "values.unknown_tag", "tag {tag} is not used; only tag 42 (a link) is", begin, tag=tag
            )
        inner = self.at
        if self.byte(inner) >> 5 != _BYTES:
            kind = _MAJORS[self.data[inner] >> 5]
            raise self.fault("values.bad_link", "a link holds a {kind}, not a byte string", begin, kind=kind)
        raw = self.chunk(inner, self.argument())
        fault = cid_fault(raw[1:]) if raw[:1] == b"\0" else "it does not begin with a zero byte"
        if fault:
            raise self.fault(
                "values.bad_link", "a link holds {raw}, which is no CID: {fault}", begin, raw=raw, fault=fault
            )
        cid = Cid(raw[1:])
        self.links.append(cid)
        return Link(cid)

    def simple(self, begin: int) -> Value:
        first = self.data[begin]
        if first in _SIMPLE:
            self.at = begin + 1
            return _SIMPLE[first]
        if first == _FLOAT_DOUBLE:
            return self.double(begin)
        if first in (_FLOAT_HALF, _FLOAT_SINGLE):
            bits = 16 if first == _FLOAT_HALF else 32
            raise self.fault(
                "values.float_width", "a float has {bits} bits; floats have 64", begin, bits=bits
            )
        if first == _BREAK:
            raise self.fault("values.indefinite_length", "a break ends no item", begin)
        what = "undefined" if first == _UNDEFINED else f"simple value {first:02x}"
        raise self.fault("values.simple_value", "{what} is no value", begin, what=what)

    def double(self, begin: int) -> float:
        self.at = begin + 1
        self.chunk(begin, 8)
        number: float = _double(self.data, begin + 1)[0]
        if not math.isfinite(number):
            raise self.fault("values.float_not_finite", "{number} is no value", begin, number=str(number))
        if number == 0 and math.copysign(1.0, number) < 0:
            raise self.fault("values.negative_zero", "-0.0 is no value", begin)
        return number

    def argument(self) -> int:
        """Read a head and return its argument, which must be written as short as possible."""
        begin = self.at
        first = self.byte(begin)
        short = first & 0x1F
        self.at = begin + 1
        if short < 24:
            return short
        if short == 31:
            kind = _MAJORS[first >> 5]
            raise self.fault("values.indefinite_length", "a {kind} has no definite length", begin, kind=kind)
        if short > 27:
            raise self.fault(
                "values.reserved_head", "{first} begins no item", begin, first=f"byte {first:02x}"
            )
        width = 1 << (short - 24)
        argument = int.from_bytes(self.chunk(begin, width), "big")
        if argument < (24 if width == 1 else 1 << (4 * width)):
            raise self.fault(
                "values.overlong", "{argument} is written in {width} bytes where fewer would do", begin,
                argument=argument, width=width,
            )  # fmt: skip
        return argument

    def chunk(self, begin: int, count: int) -> bytes:
        """Take the next `count` bytes, which belong to the item that began at `begin`."""
        end = self.at + count
        if end > len(self.data):
            left = len(self.data) - self.at
            raise self.fault(
                "values.truncated", "{count} bytes should follow and {left} do", begin, count=count, left=left
            )
        raw = self.data[self.at : end]
        self.at = end
        return raw

    def text(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fault(
                "values.bad_utf8", "a text is not UTF-8: {reason}", self.at - len(raw) + error.start,
                reason=error.reason,
            ) from error  # fmt: skip

    def byte(self, at: int) -> int:
        if at >= len(self.data):
            raise self.fault("values.truncated", "the bytes end where an item should begin", at)
        return self.data[at]

    def fault(self, code: str, message: str, offset: int, *, hint: str = "", **fields: object) -> Rejected:
        steps = [step for step in (level.step() for level in self.levels) if step is not None]
        where = " (at {path}, byte {offset})."
        return Rejected(code, message + where, hint=hint, path=path_text(steps), offset=offset, **fields)
