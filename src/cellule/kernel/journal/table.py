"""The table of record kinds: what each class of `records.py` says about its records in a frame.

    Step   [4, cause, module, key, born, era, status, version, prev, state, extras]

From one class come the width of its list, the proof of each field, the way to read it and to write it, and
the drawing in `docs/formats/frames.md`. A row is a record as it stands in a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from cellule.kernel.journal.codes import Kind
from cellule.kernel.journal.fields import Form, NameOf, Names, extras_form
from cellule.kernel.journal.records import RECORDS, Record

Row = list[Any]
_new = tuple.__new__  # a NamedTuple without its Python-level constructor


@dataclass(frozen=True, slots=True)
class RecordKind:
    """One kind of record: its class, and the forms of its fields after `cause`, by their names.

    `reads` and `writes` are the fields that differ between a record and its row, by their positions there.
    """

    kind: Kind
    record: type[Record]
    forms: Mapping[str, Form]
    extras: Mapping[str, Form]
    width: int
    reads: Sequence[tuple[int, Callable[[Any, Names], Any]]]
    writes: Sequence[tuple[int, Callable[[Any, NameOf], Any]]]

    @property
    def title(self) -> str:
        """Its name in documents: `Step`."""
        return self.kind.name.capitalize()

    def wrong_field(self, row: Row, names: int) -> str | None:
        """The name of the first field that is not what the kind asks for, or None."""
        for position, (field, form) in enumerate(self.forms.items(), start=2):
            if not form.fits(row[position], names):
                return field
        return None


def _kind(kind: Kind, record: type[Record]) -> RecordKind:
    hints = get_type_hints(record, include_extras=True)
    extras: dict[str, Form] = {}
    if "extras" in hints:
        named = get_type_hints(hints["extras"], include_extras=True)
        extras = {field: hint.__metadata__[0] for field, hint in named.items()}
    forms: dict[str, Form] = {
        field: extras_form(extras) if field == "extras" else hints[field].__metadata__[0]
        for field in record._fields[1:]
    }
    places = list(enumerate(forms.values(), start=2))
    return RecordKind(
        kind, record, forms, extras, len(forms) + 2,
        tuple((at, form.read) for at, form in places if form.read is not None),
        tuple((at, form.write) for at, form in places if form.write is not None),
    )  # fmt: skip


KINDS: Final = {int(kind): _kind(kind, record) for kind, record in RECORDS.items() if record is not None}
"""The kinds that this version writes, by their numbers."""

BY_CLASS: Final[dict[type, RecordKind]] = {kind.record: kind for kind in KINDS.values()}
RESERVED: Final = frozenset(int(kind) for kind, record in RECORDS.items() if record is None)


def kind_name(record: Record) -> str:
    """The kind of a record, as people read it: `step`."""
    return BY_CLASS[record.__class__].kind.name.lower()


def read_row(row: Row, names: Names) -> Record:
    """The record that stands in a row; a row that does not fit raises what Python says of it."""
    kind = KINDS[row[0]]
    fields = row[1:]
    for position, read in kind.reads:
        fields[position - 1] = read(row[position], names)
    record: Record = _new(kind.record, fields)
    return record


def write_row(record: Record, name_of: NameOf) -> Row:
    """A record as it stands in a frame; its names enter the frame's table in the order of its fields."""
    kind = BY_CLASS[record.__class__]
    row: Row = [int(kind.kind), *record]
    for position, write in kind.writes:
        row[position] = write(row[position], name_of)
    return row


def drawing() -> str:
    """All kinds, one a line, as the format page draws them."""
    return "\n".join(
        f"{kind.title:<10}[{number}, cause, {', '.join(kind.forms)}]" for number, kind in KINDS.items()
    )
