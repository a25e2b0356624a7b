"""What is known of a value before it is there: its kind, and its schema where the author gave one.

A kind is what CEL tells apart: bool, int, double, string, bytes, list, map, null; `None` when unknown. The
schema decides what a macro may run over; a path into a schema that has no such field is refused.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

Kind = str | None

NUMBERS: Final = frozenset({"int", "double"})
SMALL: Final = frozenset({"bool", "int", "double", "null", "type"})
"""Kinds whose values take no room to speak of."""

_KINDS: Final[dict[type, str]] = {
    t.Unit: "null", t.Bool: "bool", t.Int: "int", t.Time: "int", t.Duration: "int", t.Float: "double",
    t.Text: "string", t.Dec: "string", t.Hash: "string", t.Bytes: "bytes", t.Uuid: "bytes",
    t.List: "list", t.Set: "list", t.Tuple: "list", t.Record: "map", t.Variant: "map",
}  # fmt: skip


class Step(NamedTuple):
    """Where one step of a path leads: `found` is False if the schema has no such part."""

    found: bool
    schema: Schema | None
    known: tuple[str, ...] = ()


def bare(schema: Schema | None, schemas: Schemas) -> Schema | None:
    """Follow refs and options to the schema of a value that is there."""
    while isinstance(schema, t.Ref | t.Option):
        schema = schemas.resolve(schema) if isinstance(schema, t.Ref) else schema.item
    return schema


def kind_of(schema: Schema | None, schemas: Schemas) -> Kind:
    """The kind of every value of `schema`; options may be null too, which is not said."""
    inner = bare(schema, schemas)
    match inner:
        case None | t.Any():
            return None
        case t.Enum():
            return "string" if inner.is_text else "int"
        case t.Map():
            return "map" if schemas.is_text_keyed(inner) else "list"
        case _:
            return _KINDS[type(inner)]


def field_step(schema: Schema | None, name: str, schemas: Schemas) -> Step:
    """Follow a field or a text key."""
    inner = bare(schema, schemas)
    match inner:
        case None | t.Any():
            return Step(True, None)
        case t.Record(fields=fields):
            by_name = dict(fields)
            return Step(name in by_name, by_name.get(name), tuple(by_name))
        case t.Variant():
            part = t.Text() if name == "$tag" else None
            return Step(name in ("$tag", "$value"), part, ("['$tag']", "['$value']"))
        case t.Map(value=value) if schemas.is_text_keyed(inner):
            return Step(True, value)
        case _:
            return Step(False, None)


def item_step(schema: Schema | None, index: int | None, schemas: Schemas) -> Step:
    """Follow an index; `None` when it is not known yet."""
    match bare(schema, schemas):
        case None | t.Any():
            return Step(True, None)
        case t.List(item=item) | t.Set(item=item):
            return Step(True, item)
        case t.Tuple(items=items):
            if index is None:
                return Step(True, None)
            return Step(0 <= index < len(items), items[index] if 0 <= index < len(items) else None)
        case t.Record() | t.Variant() | t.Map():
            return Step(index is None, None)
        case _:
            return Step(False, None)
