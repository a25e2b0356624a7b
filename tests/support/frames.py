"""Frames made by hand: records written again, and frames that lie about one of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from cellule.kernel.journal.frame import Header, decode_frame, encode_frame
from cellule.kernel.journal.records import Record
from cellule.kernel.journal.table import KINDS, Row, write_row
from cellule.values.cbor import decode, encode

Fields = dict[str, Any]
"""A record as it stands in a frame, its fields by their names: for changes that no record could hold."""


def encode_records(header: Header, records: Iterable[Record], names: Sequence[str] = ()) -> bytes:
    """A frame of these records; its table begins with these names."""
    table = {name: position for position, name in enumerate(names)}
    rows = [write_row(record, lambda name: table.setdefault(name, len(table))) for record in records]
    return encode_frame(header, list(table), rows, linked=True)


def with_header(data: bytes, **changes: Any) -> bytes:
    """The frame with other fields in its header."""
    frame = decode_frame(data)
    return encode_records(replace(frame.header, **changes), frame.records, frame.names)


def with_row(data: bytes, position: int, row: Row) -> bytes:
    """The frame with anything at all in place of one of its records."""
    header, names, rows = _parts(data)
    rows[position] = row
    return encode([header, names, rows])


def with_change(data: bytes, position: int, change: Callable[[Fields], object]) -> bytes:
    """The frame with changed fields in one of its records; a field that is taken out makes it shorter."""
    row = _parts(data)[2][position]
    fields = fields_of(row)
    change(fields)
    return with_row(data, position, [row[0], *fields.values()])


def fields_of(row: Row) -> Fields:
    """The fields of a record as it stands in a frame."""
    return dict(zip(("cause", *KINDS[row[0]].forms), row[1:], strict=True))


def rows_of(data: bytes) -> list[Row]:
    """The records of a frame as they stand in it."""
    return _parts(data)[2]


def _parts(data: bytes) -> tuple[Any, Any, list[Row]]:
    value: Any = decode(data)
    header, names, rows = value
    return header, names, rows
