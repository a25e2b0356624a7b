"""A frame: one beat's records, chained by hash to the frame before it.

    frame  = [header, names, records]
    header = {beat, burst, entropy, first, format, last, now_ns, prev, quota}
    names  = the module and schema names of this frame, in order of first use; records hold positions in it

`prev` is the sha-256 digest of the previous frame's bytes, null in a world's first frame: bytes and not a
link, because frames live in the journal and not in the CAS. A frame has at least one record, so every
frame has a last height of its own. Decoding checks shape and lengths, and raises `Corrupted` with the
place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.kernel.journal.codes import Kind
from cellule.kernel.journal.records import Record
from cellule.kernel.journal.table import BY_CLASS, KINDS, RESERVED, RecordKind, Row, kind_name, read_row
from cellule.kernel.limits import FORMAT_VERSION
from cellule.values.cbor import decode, decode_trusted, encode_flat
from cellule.values.cid import Cid, cid_of
from cellule.values.writer import LIST, head

ENTROPY_BYTES = 16
_BEGIN = bytes((LIST | 3, 0xA9))  # how a frame begins: a list of three, and a header of nine fields
_TEXT = 0x60
_BYTES = 2  # the major type of byte strings
_HEAD_BYTES_MAX = 1 + len("entropy") + 9  # of a field's name and the head of its value
_HEADER_KEYS = {"beat", "burst", "entropy", "first", "format", "last", "now_ns", "prev", "quota"}
_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError)  # what reading a damaged row may raise

R = TypeVar("R", bound=Record)


@dataclass(slots=True)
class Header:
    """What all records of a frame share. Nobody changes it; not frozen, because that is slower to make."""

    beat: int
    first: int
    last: int
    now_ns: int
    entropy: bytes
    quota: int
    burst: int
    prev: bytes | None


@dataclass(frozen=True)
class Frame:
    """A decoded frame: its records by their heights, in order, or all of one kind."""

    header: Header
    names: list[str]
    cid: Cid
    _rows: list[Row]
    _is_checked: bool = True

    @cached_property
    def records(self) -> list[Record]:
        """All records; `records[i]` has height `header.first + i`."""
        if not self._is_checked:
            for height, row in enumerate(self._rows, self.header.first):
                _check_row(self.cid, height, row, self.header.first)
        return _read_rows(self.cid, self.header.first, self.names, self._rows)

    def at(self, height: int) -> Record:
        """The record at a height of this frame; the others are not read for it."""
        if "records" in self.__dict__:
            return self.records[height - self.header.first]
        row = self._rows[height - self.header.first]
        _check_row(self.cid, height, row, self.header.first)
        return _read_rows(self.cid, height, self.names, [row])[0]

    def expect(self, height: int, kind: type[R]) -> R:
        """The record at a height, which is of that kind; `Corrupted` where the journal says otherwise."""
        record = self.at(height)
        if not isinstance(record, kind):
            place, wanted = _place(height, self.header.first), BY_CLASS[kind].kind.name.lower()
            _damaged(self.cid, place, f"it is of kind {kind_name(record)}, not {wanted}")
        return record

    def newest_step(self, module: str, key: bytes, below: int) -> int:
        """The height of a cell's last step below a height, 0 if there is none; no other record is read."""
        if module not in self.names:
            return 0
        wanted = [Kind.STEP, self.names.index(module), key]
        first = self.header.first
        for at in range(min(below, self.header.last + 1) - first - 1, -1, -1):
            row = self._rows[at]
            if [row[0], *row[2:4]] == wanted:
                return first + at
        return 0

    def numbered(self) -> Iterator[tuple[int, Record]]:
        """All records with their heights."""
        return enumerate(self.records, self.header.first)

    def of(self, kind: type[R]) -> Iterator[tuple[int, R]]:
        """The records of one kind with their heights."""
        return ((height, record) for height, record in self.numbered() if isinstance(record, kind))


def encode_frame(
    header: Header, names: Sequence[str], rows: Sequence[Row], *, linked: bool, encoded: bytes = b""
) -> bytes:
    """Encode a frame; `encoded` are the rows that come before `rows`, one after the other.

    `linked` tells that some row holds a link, which only the exact writer can write. Then the rows are
    encoded one by one, so that only those with links pay for it.
    """
    fields: dict[str, Any] = {
        "beat": header.beat, "burst": header.burst, "entropy": header.entropy, "first": header.first,
        "format": FORMAT_VERSION, "last": header.last, "now_ns": header.now_ns, "prev": header.prev,
        "quota": header.quota,
    }  # fmt: skip
    if not linked and not encoded:
        return encode_flat([fields, list(names), list(rows)])
    count = header.last - header.first + 1
    parts = [head(LIST, 3), encode_flat(fields), encode_flat(list(names)), head(LIST, count), encoded]
    if linked:
        parts.extend(encode_flat(row) for row in rows)
    else:
        parts.append(encode_flat(list(rows))[len(head(LIST, len(rows))) :])
    return b"".join(parts)


def decode_frame(data: bytes, *, prove: bool = False, lazy: bool = False) -> Frame:
    """Decode and check a frame; `prove` also proves every field and that its bytes are canonical.

    `lazy` leaves the check of each record to whoever reads it, for those who read one of many.
    """
    cid = cid_of(data)
    try:
        value: Any = decode(data) if prove else decode_trusted(data)
    except CelluleError as error:
        _damaged(cid, "", str(error), error)
    if not isinstance(value, list) or len(value) != 3:
        _damaged(cid, "", "it is not a list of header, names and records")
    head, names, rows = value
    header = _header(cid, head)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        _damaged(cid, "names", "they are not a list of texts")
    if not isinstance(rows, list) or len(rows) != header.last - header.first + 1 or not rows:
        _damaged(cid, "records", "their number does not fit the heights of the header")
    for height, row in () if lazy else enumerate(rows, header.first):
        kind = _check_row(cid, height, row, header.first)
        wrong = kind.wrong_field(row, len(names)) if prove else None
        if wrong is not None:
            _damaged(cid, f"{_place(height, header.first)}.{wrong}", "it does not fit")
    return Frame(header, names, cid, rows, not lazy)


def first_height(data: bytes) -> int | None:
    """The height of a frame's first record, read from its header alone; None where it cannot be told.

    Whoever decodes the frame finds what is wrong with it.
    """
    for name, major, number, _ in _fields(data):
        if name == b"first":
            return number if major == 0 else None
    return None


def read_header(data: bytes, cid: Cid) -> Header:
    """The header of a frame with this CID, without its records; `Corrupted` if it is none."""
    ends = [end for *_, end in _fields(data)]
    if len(ends) < len(_HEADER_KEYS):
        return decode_frame(data, lazy=True).header
    try:
        fields = decode_trusted(data[1 : ends[-1]])
    except CelluleError as error:
        _damaged(cid, "header", str(error), error)
    return _header(cid, fields)


def _fields(data: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """A header's fields as name, major type, number and end; fewer than there are where one is odd."""
    at = len(_BEGIN)
    for _ in _HEADER_KEYS:
        if not data.startswith(_BEGIN) or at + _HEAD_BYTES_MAX >= len(data):
            return
        size = data[at] - _TEXT
        name, at = data[at + 1 : at + 1 + size], at + 1 + size
        major, low = data[at] >> 5, data[at] & 31
        if not 0 < size <= len("entropy") or low > 27:
            return
        width = 0 if low < 24 else 1 << (low - 24)
        number = int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else low
        at += 1 + width + (number if major == _BYTES else 0)
        yield name, major, number, at


def _read_rows(cid: Cid, first: int, names: list[str], rows: list[Row]) -> list[Record]:
    height = first
    records: list[Record] = []
    try:
        for row in rows:
            records.append(read_row(row, names))
            height += 1
    except _UNREADABLE as error:
        _damaged(cid, _place(height, first), f"a field does not fit: {error}", error)
    return records


def check_not_newer(what: str, cid: Cid, found: object, known: int) -> None:
    """Refuse bytes of a later format: they are not damaged, this Cellule is too old for them."""
    if type(found) is int and found > known:
        raise Rejected(
            "kernel.format_newer", "{what} {cid} has format {found}; this Cellule knows none above {known}",
            what=what, cid=str(cid), found=found, known=known,
            hint="Nothing is damaged: a newer Cellule wrote it, and a newer Cellule is needed to open it.",
        )  # fmt: skip


def _header(cid: Cid, head: Any) -> Header:
    if not isinstance(head, dict):
        _damaged(cid, "header", "it is not a map")
    check_not_newer("frame", cid, head.get("format"), FORMAT_VERSION)
    if set(head) != _HEADER_KEYS:
        _damaged(cid, "header", "it is not a map of the known fields")
    if head["format"] != FORMAT_VERSION:
        raise Corrupted(
            "kernel.frame_format",
            "frame {cid} has format {found}; this version reads format {known}",
            cid=str(cid), found=head["format"], known=FORMAT_VERSION,
            hint="Open the world with the version of Cellule that wrote it, or a newer one.",
        )  # fmt: skip
    for name in ("beat", "burst", "first", "last", "now_ns", "quota"):
        if type(head[name]) is not int or head[name] < 0:
            _damaged(cid, f"header.{name}", "it is not a whole number from 0")
    if not isinstance(head["entropy"], bytes) or len(head["entropy"]) != ENTROPY_BYTES:
        _damaged(cid, "header.entropy", "it is not 16 bytes")
    prev = head["prev"]
    if prev is not None and (not isinstance(prev, bytes) or len(prev) != 32):
        _damaged(cid, "header.prev", "it is not a digest of 32 bytes")
    return Header(
        head["beat"], head["first"], head["last"], head["now_ns"], head["entropy"], head["quota"],
        head["burst"], prev,
    )  # fmt: skip


def _check_row(cid: Cid, height: int, row: Any, first: int) -> RecordKind:
    """The kind of a row; its fields are of that number, and its cause is an earlier height."""
    if not isinstance(row, list) or not row or type(row[0]) is not int:
        _damaged(cid, _place(height, first), "it is not a list that starts with a kind")
    kind = KINDS.get(row[0])
    if kind is None:
        what = "is reserved for a later version" if row[0] in RESERVED else "is unknown"
        raise Corrupted(
            "kernel.record_kind",
            "{place} of frame {cid}: record kind {kind} {what}",
            place=_place(height, first), cid=str(cid), kind=row[0], what=what,
            hint="Open the world with the version of Cellule that wrote it, or a newer one.",
        )  # fmt: skip
    if len(row) != kind.width:
        what = f"a {kind.kind.name} has {kind.width} fields, this one {len(row)}"
        _damaged(cid, _place(height, first), what)
    if type(row[1]) is not int or not 0 <= row[1] < height:
        _damaged(cid, f"{_place(height, first)}.cause", "it is not an earlier height")
    return kind


def _place(height: int, first: int) -> str:
    return f"records[{height - first}] (height {height})"


def _damaged(cid: Cid, place: str, what: str, cause: Exception | None = None) -> NoReturn:
    raise Corrupted(
        "kernel.frame_damaged",
        "frame {cid}, {place}: {what}",
        cid=str(cid),
        place=place or "whole",
        what=what,
    ) from cause
