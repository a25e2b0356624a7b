"""The closed union of schema types: what a value may be, as frozen data.

A schema knows nothing of Python classes (see `derive`) and nothing of bytes (see `codec`). Two schemas are
equal exactly if their documents are: fields, cases and enum values are kept sorted, so the order in which an
author wrote them is not part of a schema. A record's field is optional exactly if its type is an option.

Rejected: defaults in schemas. A default is code of the reader; stored bytes must mean the same without it.
Rejected: a separate `optional` flag on fields. `option` says it already, and null in a field means absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

DEC_LENGTH_MAX = 1_000
"""Characters of a decimal; larger exponents would turn nine bytes of input into megabytes of zeros."""


class Unit(msgspec.Struct, frozen=True):
    """Nothing: always null."""


class Bool(msgspec.Struct, frozen=True):
    """True or false."""


class Int(msgspec.Struct, frozen=True):
    """An integer of -2^64..2^64-1, or of the narrower bounds given."""

    min: int | None = None
    max: int | None = None


class Float(msgspec.Struct, frozen=True):
    """A finite 64-bit float that is not -0.0."""

    min: float | None = None
    max: float | None = None


class Text(msgspec.Struct, frozen=True):
    """Unicode text; lengths count code points."""

    min_length: int | None = None
    max_length: int | None = None


class Bytes(msgspec.Struct, frozen=True):
    """A byte string."""

    min_length: int | None = None
    max_length: int | None = None


class Time(msgspec.Struct, frozen=True):
    """A moment: integer nanoseconds since the Unix epoch, UTC."""


class Duration(msgspec.Struct, frozen=True):
    """A span of time: integer nanoseconds."""


class Dec(msgspec.Struct, frozen=True):
    """An exact decimal number, as plain text."""


class Uuid(msgspec.Struct, frozen=True):
    """A UUID, as 16 bytes."""


class Hash(msgspec.Struct, frozen=True):
    """A link to content, by its CID."""


class Any(msgspec.Struct, frozen=True):
    """Any canonical value except null (`option` adds null)."""


class Enum(msgspec.Struct, frozen=True):
    """One of a fixed set of texts, or of integers; sorted."""

    values: tuple[str, ...] | tuple[int, ...]

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return isinstance(self.values[0], str)


class List(msgspec.Struct, frozen=True):
    """Any number of items of one type, in order."""

    item: Schema
    min_length: int | None = None
    max_length: int | None = None


class Set(msgspec.Struct, frozen=True):
    """Distinct items of one type, without order."""

    item: Schema
    min_length: int | None = None
    max_length: int | None = None


class Tuple(msgspec.Struct, frozen=True):
    """A fixed number of items, each of its own type."""

    items: tuple[Schema, ...]


class Map(msgspec.Struct, frozen=True):
    """Values by distinct keys."""

    key: Schema
    value: Schema
    min_length: int | None = None
    max_length: int | None = None


class Option(msgspec.Struct, frozen=True):
    """The item or nothing: null, or in a record's field absent."""

    item: Schema


class Record(msgspec.Struct, frozen=True):
    """Named fields, sorted by name; make one with `record`."""

    fields: tuple[tuple[str, Schema], ...]


class Variant(msgspec.Struct, frozen=True):
    """Exactly one of several tagged cases, sorted by tag; make one with `variant`."""

    cases: tuple[tuple[str, Schema], ...]


class Ref(msgspec.Struct, frozen=True):
    """The schema registered under `name` (`namespace/name@version`)."""

    name: str


Schema: TypeAlias = (
    Unit
    | Bool
    | Int
    | Float
    | Text
    | Bytes
    | Time
    | Duration
    | Dec
    | Uuid
    | Hash
    | Any
    | Enum
    | List
    | Set
    | Tuple
    | Map
    | Option
    | Record
    | Variant
    | Ref
)


def record(fields: Mapping[str, Schema]) -> Record:
    """Make a record type; the order of `fields` does not matter."""
    return Record(tuple(sorted(fields.items(), key=_name)))


def variant(cases: Mapping[str, Schema]) -> Variant:
    """Make a variant type; the order of `cases` does not matter."""
    return Variant(tuple(sorted(cases.items(), key=_name)))


def children(schema: Schema) -> list[tuple[str, Schema]]:
    """Return the direct parts of `schema`, each with the path segment that leads to it."""
    match schema:
        case List(item=item) | Set(item=item):
            return [("[]", item)]
        case Option(item=item):
            return [("?", item)]
        case Map(key=key, value=value):
            return [(".key", key), (".value", value)]
        case Tuple(items=items):
            return [(f"[{index}]", item) for index, item in enumerate(items)]
        case Record(fields=fields):
            return [(f".{name}", field) for name, field in fields]
        case Variant(cases=cases):
            return [(f"<{tag}>", case) for tag, case in cases]
        case _:
            return []


def _name(entry: tuple[str, Schema]) -> str:
    return entry[0]
