"""What schemas tell about expressions before they run: fields that are there, types that can never fit.

Only what is certainly wrong is a problem: `any`, an option and a type that is not known fit everything, and
are checked when the value is there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from cellule.values.schema import types as t
from cellule.values.schema.checks import TAG, VALUE
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

_TAKES: Final[dict[type, tuple[type, ...]]] = {
    t.Text: (t.Text, t.Enum, t.Dec),
    t.Int: (t.Int, t.Float, t.Time, t.Duration, t.Enum),
    t.Enum: (t.Text, t.Int, t.Enum),
    t.Time: (t.Time, t.Int),
    t.Duration: (t.Duration, t.Int),
    t.Dec: (t.Dec, t.Text),
    t.Uuid: (t.Uuid, t.Bytes),
    t.Bytes: (t.Bytes, t.Uuid),
    t.List: (t.List, t.Set, t.Tuple),
    t.Set: (t.Set, t.List),
    t.Record: (t.Record, t.Map),
    t.Map: (t.Map, t.Record),
}


def misfit(found: Schema | None, wanted: Schema | None, schemas: Schemas, literal: Any) -> str:
    """Why a value of one type can never be one of the other; empty where it may."""
    if found is None or wanted is None:
        return ""
    here, there = schemas.resolve(found), schemas.resolve(wanted)
    if isinstance(here, t.Option | t.Any) or isinstance(there, t.Any):
        return ""
    if isinstance(there, t.Option):
        return "" if isinstance(here, t.Unit) else misfit(here, there.item, schemas, literal)
    if type(there) not in _TAKES.get(type(here), (type(here),)):
        return f"{_named(here)} stands where {_named(there)} is needed"
    if literal is not None and isinstance(there, t.Enum) and literal not in there.values:
        return f"{literal!r} is none of {', '.join(map(str, there.values))}"
    return ""


def missing_fields(shape: Schema | None, given: Collection[str], schemas: Schemas) -> list[str]:
    """The fields that a record has to have and that are not given."""
    if not isinstance(shape, t.Record):
        return []
    needed = [name for name, each in shape.fields if not isinstance(schemas.resolve(each), t.Option)]
    return [name for name in needed if name not in given]


def part_of(found: Schema | None, steps: tuple[str, ...], schemas: Schemas) -> tuple[Schema | None, str]:
    """The type of what stands at a path, and what is wrong with the path; None: not known."""
    for step in steps:
        if found is None:
            return None, ""
        here = schemas.resolve(found)
        if isinstance(here, t.Option):
            here = schemas.resolve(here.item)
        match here:
            case t.Any():
                return None, ""
            case t.Map():
                found = t.Option(here.value)
            case t.Variant() if step in (TAG, VALUE):
                found = t.Text() if step == TAG else None
            case t.Record():
                fields = dict(here.fields)
                if step not in fields:
                    return None, f"there is no field {step!r}; there are: {', '.join(fields) or 'none'}"
                found = fields[step]
            case _:
                return None, f"{step!r} is looked for in {_named(here)}, which has no fields"
    return found, ""


def _named(schema: Schema) -> str:
    name = type(schema).__name__.lower()
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
